package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/logstore/recovery"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// Open locks the directory, recovers every log in it, and starts the background flush and
// retention. After an unclean shutdown, recovery scans each log starting at its recovery point. If
// a log cannot be opened, Open still opens the others; see Store.Offline. The error wraps
// vfs.ErrLocked if another process holds the lock of the directory.
func Open(opts Options) (*Store, error) {
	s := newStore(opts)
	if err := s.makeDirectory(); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := s.opts.FS.Lock(filepath.Join(opts.Dir, datadir.LockFile))
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", opts.Dir, err)
	}
	s.lock = lock
	if err := s.load(); err != nil {
		s.commits.close()
		for _, log := range s.Logs() {
			err = errors.Join(err, log.close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	// The goroutine starts after load, because load uses the store without locks. From here on,
	// Close stops the goroutine.
	go s.run()
	s.deleteSoon() // deletes the directories whose deletion was interrupted
	return s, nil
}

// makeDirectory creates the data directory if it does not exist. It does not change an existing
// directory, because that may be the mount point of a volume, whose parent directory belongs to
// another user.
func (s *Store) makeDirectory() error {
	if _, err := s.opts.FS.Stat(s.opts.Dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.opts.FS.MkdirAll(s.opts.Dir); err != nil {
		return err
	}
	return s.opts.FS.SyncDir(filepath.Dir(s.opts.Dir))
}

// newStore returns a store with the options' default values filled in. It accesses no file.
func newStore(opts Options) *Store {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.FlushInterval <= 0 {
		opts.FlushInterval = flushIntervalDefault
	}
	if opts.RetentionInterval <= 0 {
		opts.RetentionInterval = retentionIntervalDefault
	}
	if opts.OpenFilesLimit == 0 {
		opts.OpenFilesLimit = openFilesLimit()
	}
	if opts.OpenFilesMax <= 0 {
		opts.OpenFilesMax = openFilesDefault(opts.OpenFilesLimit)
	}
	if opts.FlushBytes <= 0 {
		opts.FlushBytes = flushBytesDefault
	}
	if opts.Damaged == nil {
		opts.Damaged = func(PartitionID, int64) {}
	}
	s := &Store{opts: opts, wake: make(chan struct{}, 1), doomed: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	s.commits = newCommitter(s.durableEndChanged)
	s.handles = vfs.NewHandles(opts.FS, opts.OpenFilesMax)
	s.cleanEpoch = -1
	s.epoch.Store(-1)
	s.saving.files = datadir.NewCheckpoints(opts.FS, opts.Dir, opts.Logger)
	s.mu.offline = map[PartitionID]offline{}
	s.mu.missing = map[PartitionID]checkpoint.State{}
	s.mu.reopened = map[PartitionID]bool{}
	return s
}

// load reads the data directory and opens its logs. It fails if the directory, or a file that
// belongs to the whole store, cannot be read or written. A log that cannot be opened becomes
// offline instead. The store's goroutine does not run yet, so only the workers that open logs
// acquire Store.mu.
func (s *Store) load() (err error) {
	level, err := datadir.SupportedFormatLevel(s.opts.FS, s.opts.Dir)
	if err != nil {
		return err
	}
	s.formatLevel.Store(level)
	// Read everything that another program may have written before the first file is changed.
	checkpoints, _, err := s.saving.files.Load()
	if err != nil {
		return err
	}
	clean, cleanEpoch, err := datadir.ReadCleanShutdown(s.opts.FS, s.opts.Dir)
	if err != nil {
		return err
	}
	ids, err := s.partitions()
	if err != nil {
		return err
	}
	if err := recovery.RefuseForeign(s.opts.FS, s.opts.Dir, ids,
		s.opts.workers(openWorkers)); err != nil {
		return err
	}
	if s.directoryID, s.meta, err = datadir.LoadMeta(s.opts.FS, s.opts.Dir,
		s.opts.Logger); err != nil {
		return err
	}
	if s.boot, err = datadir.LoadBoot(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	s.bootEpoch = s.boot.Epoch
	s.noteMissing(checkpoints, ids)
	var sealed map[PartitionID]checkpoint.ClosedLog
	current := false
	if clean {
		sealed, current = datadir.LoadClosed(s.opts.FS, s.opts.Dir, s.opts.Logger, cleanEpoch)
	}
	parallel.Each(ids, s.opts.workers(openWorkers), func(id PartitionID) {
		known, ok := checkpoints[id]
		if !ok {
			known.RecoveryPoint = checkpoint.UnknownOffset
		}
		s.openLog(id, start{saved: known, clean: clean, closed: sealed[id], current: current,
			allSummarized: sealed != nil, now: time.Now()})
	})
	if !clean {
		s.saveAfterRecovery()
		return nil
	}
	s.cleanEpoch = cleanEpoch
	if len(s.mu.offline) > 0 {
		s.cleanEpoch = -1 // a log that existed at the clean shutdown cannot be opened
	}
	// The marker is durably removed before the first append, but only after all logs are open. If
	// the start is interrupted before the removal, the next start can still rely on the clean
	// shutdown.
	if err := s.opts.FS.Remove(filepath.Join(s.opts.Dir, datadir.CleanShutdownFile)); err != nil {
		return fmt.Errorf("remove %s: %w", datadir.CleanShutdownFile, err)
	}
	return s.opts.FS.SyncDir(s.opts.Dir)
}

// saveAfterRecovery writes the checkpoints after an unclean shutdown, before the first append.
// Recovery lowers checkpointed offsets that are above the end of their log. If the old offsets,
// such as a high watermark above every record that was ever replicated, stayed on disk, the log
// could grow past them. Recovery from the next crash would then accept them. If the write fails,
// for example on a full disk, the start continues.
func (s *Store) saveAfterRecovery() {
	if err := s.save(); err != nil {
		s.opts.Logger.Warn(
			"failed to write the checkpoints after recovery; the next flush tries again",
			"error", err)
	}
}

// partitions returns the ids of the partitions that have a directory. It adds the directories whose
// deletion was interrupted to Store.mu.released.
func (s *Store) partitions() ([]PartitionID, error) {
	entries, err := s.opts.FS.ReadDir(s.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list data directory: %w", err)
	}
	var ids []PartitionID
	for _, entry := range entries {
		name := entry.Name()
		id, isPartition := datadir.ParsePartition(name)
		switch {
		case !entry.IsDir(), strings.HasSuffix(name, datadir.RetainedSuffix):
		case strings.HasSuffix(name, datadir.DeleteSuffix):
			s.mu.released = append(s.mu.released, name)
		case isPartition && id.Topic == metadataLog:
			s.opts.Logger.Info("metadata log of Apache Kafka ignored", "directory", name)
		case isPartition:
			ids = append(ids, id)
		case name == datadir.LostAndFound:
		default:
			s.opts.Logger.Warn("unknown directory ignored", "directory", name)
		}
	}
	return ids, nil
}

// openWorkers is the number of logs that are opened concurrently. It may exceed the number of
// processors, because opening a log mostly waits for the disk.
const openWorkers = 16

// start is the information about a log that exists before the log is opened.
type start struct {
	saved         checkpoint.State
	clean         bool // true if the store was shut down cleanly
	closed        checkpoint.ClosedLog
	allSummarized bool // true if closed summarizes every segment without a transaction index
	current       bool // true if closed was written at the last clean shutdown
	missing       bool // true if the directory was missing when the store was opened
	// offline is set by OpenOffline, which does not know whether clean is true.
	offline bool
	now     time.Time
}

// openLog opens one log. If this fails, the log is offline, and Store.mu.offline stores the error.
// The checkpoints keep the values of an offline log, so a start after the disk's repair finds the
// log unchanged.
func (s *Store) openLog(id PartitionID, from start) {
	began := time.Now()
	log, known, err := s.recover(id, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.opts.Logger.Error("failed to open log", "partition", id, "error", err)
		s.mu.offline[id] = offline{err: fmt.Errorf("%w: open log %s: %w", ErrStorage, id, err),
			saved: known}
		return
	}
	s.mu.logs.put(log)
	s.opts.Logger.Debug("log opened", "partition", id, "clean", from.clean, "start", log.LogStart(),
		"end", log.LogEnd(), "took", time.Since(began))
}

// recover opens the log in a partition's directory. Even if it fails, it returns the log's state
// from the checkpoints.
func (s *Store) recover(id PartitionID, from start) (log *Log, known checkpoint.State, err error) {
	dir := filepath.Join(s.opts.Dir, id.String())
	known = from.saved
	logger := s.opts.Logger.With("partition", id)
	topic, retain, err := datadir.LoadIdentity(s.opts.FS, dir, logger)
	if err != nil {
		return nil, known, err
	}
	released, wasRetained, err := datadir.LoadRetained(s.opts.FS, dir, logger)
	if err != nil {
		return nil, known, err
	}
	if wasRetained {
		// The file "retained" exists in two cases: the log was reopened, and the checkpoints may
		// not list it yet; or the log's release was interrupted, and the checkpoints may still list
		// it.
		known = known.Merge(released.Saved)
		from.clean = from.clean && released.Clean
	}
	if end := from.closed.End(); from.clean && from.current && end >= 0 {
		within, damaged := known.Within(end)
		if known = within; damaged {
			logger.Warn("offsets above the log end ignored; a checkpoint is damaged", "logEnd", end)
		}
	}
	log = newLog(s.environment(), id, topic, dir, newConfig(unconfigured(), retain))
	in := recovery.Input{ID: id, FS: s.opts.FS, Dir: dir, Logger: s.opts.Logger,
		Segments: log.env.segments, Active: log.config.Load().indexes(log.env.segments),
		Saved: known, Clean: from.clean, Now: from.now, Closed: from.closed,
		AllSummarized: from.clean && from.allSummarized}
	found, err := log.recover(in)
	if err != nil {
		return nil, known, err
	}
	if err := recovery.RecordLoss(log.notes, in, found, recovery.Evidence{
		Missing: from.missing, Clean: in.Clean && !from.offline}, from.current); err != nil {
		log.discard()
		return nil, known, err
	}
	if wasRetained {
		s.mu.Lock()
		s.mu.reopened[id] = true
		s.mu.Unlock()
	}
	return log, known, nil
}

// environment returns the store's functions that a log may call. A log has no reference to the
// store itself, because Store.mu must be acquired after the locks of the log.
func (s *Store) environment() environment {
	return environment{
		fs: s.opts.FS, logger: s.opts.Logger,
		segments: segment.Config{Handles: s.handles,
			UnwrittenEntriesMax: s.opts.indexEntriesMax},
		failed:          s.logFailed,
		saveCheckpoints: s.save, compress: s.compressed.At, commit: s.commits.request,
		flushBytes: s.opts.FlushBytes, reserved: &s.reserved, refusal: &s.refusal,
		verification: &s.verification, damaged: s.opts.Damaged,
	}
}

// FormatLevel returns the data directory's format level: the level of the newest format that its
// files may have.
func (s *Store) FormatLevel() int32 { return s.formatLevel.Load() }

// RaiseFormatLevel durably records that the data directory's files may have the formats of the
// given level. It must be called before the first such file is written. If the level is not higher
// than the current one, it changes nothing. It fails if this binary does not support the level.
func (s *Store) RaiseFormatLevel(level int32) error {
	if level <= s.formatLevel.Load() {
		return nil
	}
	if err := datadir.CheckFormatLevel(level); err != nil {
		return fmt.Errorf("raise the format level: %w", err)
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if err := datadir.WriteFormatLevel(s.opts.FS, s.opts.Dir, level); err != nil {
		return err
	}
	s.formatLevel.Store(level)
	return nil
}

// ErrForeign is wrapped by the error of Open and OpenOffline if another program has written a file
// in a format that this program does not support.
var ErrForeign = recovery.ErrForeign

// noteMissing stores the checkpointed state of each log that the checkpoints list but that has no
// directory, so that later checkpoints still list it. A log whose release was interrupted is not
// missing: its directory was renamed before the checkpoints were written.
func (s *Store) noteMissing(listed map[PartitionID]checkpoint.State, present []PartitionID) {
	there := make(map[PartitionID]bool, len(present))
	for _, id := range present {
		there[id] = true
	}
	for id, saved := range listed {
		if !there[id] && !slices.ContainsFunc(s.mu.released, datadir.ReleaseOf(id)) {
			s.mu.missing[id] = saved
		}
	}
}

// ForgetMissing removes partitions whose directory was missing when the store was opened from the
// checkpoints, except those that the function keep selects. The caller calls it once it knows which
// partitions are assigned to this broker, because the other partitions belong to topics that were
// deleted.
func (s *Store) ForgetMissing(keep func(PartitionID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mu.missing {
		if !keep(id) {
			delete(s.mu.missing, id)
		}
	}
}

// LostLog is a log that is known to have lost records.
type LostLog struct {
	ID    PartitionID
	Topic TopicID // zero if the directory of the log does not exist
	// ReplicaIncarnation is the replica incarnation id that the loss concerns. It is nil if no such id
	// was stored since the loss was found (datadir.Notes.StampLoss).
	ReplicaIncarnation *string
}

// LostLogs returns the logs that have lost records, sorted by partition. They include logs without
// a directory, unless the checkpoints list no record of the log, or a retained log of the partition
// exists, which may contain the records.
func (s *Store) LostLogs() ([]LostLog, error) {
	retained, err := s.newestRetainedDirs()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lost []LostLog
	for id, saved := range s.mu.missing {
		if _, kept := retained[id]; !kept && max(saved.RecoveryPoint, saved.HighWatermark) > 0 {
			lost = append(lost, LostLog{ID: id})
		}
	}
	for _, log := range s.mu.logs.all() {
		if log.Notes().Loss() == "" {
			continue
		}
		one := LostLog{ID: log.ID(), Topic: log.TopicID()}
		if incarnation, stamped := log.Notes().LossOf(); stamped {
			one.ReplicaIncarnation = &incarnation
		}
		lost = append(lost, one)
	}
	slices.SortFunc(lost, func(a, b LostLog) int {
		return cmp.Or(strings.Compare(a.ID.Topic, b.ID.Topic), cmp.Compare(a.ID.Index, b.ID.Index))
	})
	return lost, nil
}
