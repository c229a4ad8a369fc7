package logstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/recovery"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ErrNoPartition is the error of OpenOffline for a directory that is not a partition's directory,
// or that contains anything but regular files and directories.
var ErrNoPartition = errors.New("not the directory of a partition")

// metadataLog is the topic of Kafka's own metadata (KRaft). Its records have no keys, and Kafka's
// cleaner does not compact it.
const metadataLog = "__cluster_metadata"

// Offline is one partition of a data directory that no broker serves, opened for a manual
// compaction (heartwood log clean). It is a Store with one log and without a permanent goroutine.
// Store's code repairs the partition's directory and writes the checkpoints, which keep the lines
// of the other partitions. Outside the partition's directory, only the checkpoints and the lock
// file are changed. The clean-shutdown marker is kept: nothing is appended, and a start of a broker
// repairs a partial swap with or without the marker.
type Offline struct {
	store *Store
	log   *Log
	now   time.Time // the time at which passes run and producers expire
}

// OpenOffline locks the data directory that contains dir, and opens the log in dir. The error wraps
// vfs.ErrLocked if a broker or another process holds the lock.
//
// OpenOffline truncates nothing. If the end of the log is damaged, it fails with the position of
// the damage; the start of a broker repairs such a log. The high watermark is not known without a
// broker. The whole log is treated as replicated, unless the checkpoints list the partition with a
// lower high watermark.
//
// The argument now is the time at which passes run; zero means the real time. It is an argument of
// OpenOffline and not of each pass, because opening the log already expires producers at this time.
func OpenOffline(opts Options, dir string, now time.Time) (*Offline, error) {
	if now.IsZero() {
		now = time.Now()
	}
	opts.Dir = filepath.Dir(dir)
	id, err := offlineID(opts, dir)
	if err != nil {
		return nil, err
	}
	s := newStore(opts)
	if s.lock, err = opts.FS.Lock(filepath.Join(opts.Dir, datadir.LockFile)); err != nil {
		s.commits.close()
		return nil, fmt.Errorf("lock data directory %s: %w", opts.Dir, err)
	}
	o := &Offline{store: s, now: now}
	if _, err := datadir.SupportedFormatLevel(opts.FS, opts.Dir); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	if err := recovery.CheckForeign(opts.FS, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w: %w", dir, ErrForeign, err), o.Close())
	}
	if err := o.open(id); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", dir, err), o.Close())
	}
	return o, nil
}

// offlineID checks that dir is the directory of a partition, and that it contains no links.
func offlineID(opts Options, dir string) (id PartitionID, err error) {
	id, ok := datadir.ParsePartition(filepath.Base(dir))
	if !ok {
		return id, fmt.Errorf("%w: %s: its name must be TOPIC-NUMBER", ErrNoPartition, dir)
	}
	if id.Topic == metadataLog {
		return id, fmt.Errorf("%w: %s: Kafka's metadata log is not compacted", ErrNoPartition, dir)
	}
	siblings, err := opts.FS.ReadDir(opts.Dir)
	if err != nil {
		return id, fmt.Errorf("list %s: %w", opts.Dir, err)
	}
	for _, entry := range siblings {
		if entry.Name() == filepath.Base(dir) && !entry.IsDir() {
			return id, fmt.Errorf("%w: %s: it is a file or a link", ErrNoPartition, dir)
		}
	}
	entries, err := opts.FS.ReadDir(dir)
	if err != nil {
		return id, fmt.Errorf("list %s: %w", dir, err)
	}
	logs := 0
	for _, entry := range entries {
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return id, fmt.Errorf("%w: %s is neither a file nor a directory", ErrNoPartition,
				filepath.Join(dir, entry.Name()))
		}
		if f, ok := swap.ParseFile(entry.Name()); ok && f.IsLog() {
			logs++
		}
	}
	if logs == 0 {
		return id, fmt.Errorf("%w: %s: it has no .log file", ErrNoPartition, dir)
	}
	return id, nil
}

// open opens the log.
//
// Malformed checkpoints are rebuilt, as at the start of a broker. A malformed checkpoint of high
// watermarks or recovery points may have listed the partition. In this case, only the part of the
// log that the other of these two checkpoints lists as replicated is treated as replicated. If the
// checkpoint of recovery points is malformed, every segment is verified.
func (o *Offline) open(id PartitionID) error {
	s := o.store
	checkpoints, malformed, err := s.saving.files.Load()
	if err != nil {
		return err
	}
	known, listed := checkpoints[id]
	delete(checkpoints, id)
	for other, saved := range checkpoints {
		s.mu.offline[other] = offline{saved: saved}
	}
	replicated := !listed || known.RecoveryPoint == checkpoint.UnknownOffset &&
		known.HighWatermark == 0
	if malformed[checkpoint.RecoveryPointFile] || malformed[checkpoint.HighWatermarkFile] {
		replicated = false
	}
	if !listed {
		known.RecoveryPoint = checkpoint.UnknownOffset
	}
	if o.log, _, err = s.recover(id, start{saved: known, clean: true, offline: true,
		now: o.now}); err != nil {
		return err
	}
	if loss := o.log.Notes().Loss(); loss != "" {
		o.log.discard()
		return fmt.Errorf("%w: it has lost records: %s; a broker copies them from another replica",
			ErrStorage, loss)
	}
	s.mu.logs.put(o.log)
	if replicated {
		o.log.AdvanceHighWatermark(o.log.LogEnd())
	}
	checkFrom := known.RecoveryPoint
	if malformed[checkpoint.RecoveryPointFile] {
		checkFrom = 0
	}
	if err := o.checkFrom(checkFrom); err != nil {
		return err
	}
	if err := o.completeTxnIndexes(); err != nil {
		return err
	}
	// No maintenance will write the leader epochs later, and unsaved epochs would hold back the
	// recovery point, and therefore the cleaner.
	if err := o.log.epochs.Save(); err != nil {
		return err
	}
	// A pass removes segments that the summaries of the last clean shutdown contain, so delete the
	// summaries.
	if err := datadir.RemoveClosed(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	return s.save()
}

// checkFrom verifies the log above the recovery point, as the start of a broker does, but truncates
// nothing. It then syncs the log, so the recovery point may rise. If no recovery point is listed,
// it verifies only the active segment: the other segments were sealed, and a pass checks the
// checksum of each batch that it reads.
func (o *Offline) checkFrom(recoveryPoint int64) error {
	list := o.log.list.Acquire()
	defer list.Release()
	active := list.Active()
	for _, h := range list.Handles {
		if h != active && (recoveryPoint == checkpoint.UnknownOffset ||
			h.NextOffset() <= recoveryPoint) {
			continue
		}
		err := h.Scan(0, func(position int64, b record.Batch) error {
			if err := b.CheckCRC(); err != nil {
				return fmt.Errorf("batch at %d: %w", position, err)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("check %s: %w", segment.Name(h.Base(), segment.LogExtension, ""), err)
		}
	}
	for _, h := range list.Handles {
		if err := h.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// completeTxnIndexes rebuilds the transaction indexes that were not copied together with the log.
// Without these indexes, a pass would treat an aborted transaction whose marker is above the
// cleanable bound as committed. It would then remove committed records because records of the
// aborted transaction seem to supersede them. An index that has entries is complete, because
// opening the log has repaired damaged indexes.
func (o *Offline) completeTxnIndexes() error {
	list := o.log.list.Acquire()
	defer list.Release()
	for i, h := range list.Handles {
		if h.AbortedCount() > 0 {
			continue
		}
		control, err := hasControl(h)
		if err != nil {
			return fmt.Errorf("find transaction markers in segment %d: %w", h.Base(), err)
		}
		if !control {
			continue
		}
		_, ended, err := o.log.snapshots.StateAt(list.Handles[:i+1], h.NextOffset(), h.Base())
		aborted := snapshots.Aborted(ended)
		if err == nil && len(aborted) > 0 {
			err = h.ResetAborted(aborted)
		}
		if err != nil {
			return fmt.Errorf("rebuild the transaction index of segment %d: %w", h.Base(), err)
		}
	}
	return nil
}

// hasControl reports whether a segment contains a transaction marker. It reads batch headers only.
func hasControl(h *segmentlist.Handle) (bool, error) {
	for position := int64(0); ; {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil || header.Control() {
			return err == nil, err
		}
		position += int64(header.SizeBytes)
	}
}

// Now returns the time at which passes run.
func (o *Offline) Now() time.Time { return o.now }

// Dir returns the partition's directory.
func (o *Offline) Dir() string { return o.log.dir }

// Compaction returns the cleaner's view of the log.
func (o *Offline) Compaction() *compaction.Compaction { return o.log.Compaction() }

// Configure sets the settings for the next passes.
func (o *Offline) Configure(s topicconfig.Settings) { o.log.Configure(s, o.log.Retain()) }

// SegmentBytesMax returns the size of the largest segment.
func (o *Offline) SegmentBytesMax() (size int64) {
	list := o.log.list.Acquire()
	defer list.Release()
	for _, h := range list.Handles {
		size = max(size, h.SizeBytes())
	}
	return size
}

// Sealed returns the current segments except the active one, without acquiring references to them.
// The caller only compares the pointers to find the segments that a pass has rewritten.
func (o *Offline) Sealed() []*segment.Segment {
	list := o.log.list.Acquire()
	defer list.Release()
	return segmentlist.Segments(list.Handles[:len(list.Handles)-1])
}

// Close syncs the log, writes the checkpoints, and unlocks the data directory.
func (o *Offline) Close() error {
	s := o.store
	s.commits.close()
	var failed []error
	for _, log := range s.Logs() {
		failed = append(failed, log.close(), s.save())
	}
	return errors.Join(append(failed, s.lock.Close())...)
}
