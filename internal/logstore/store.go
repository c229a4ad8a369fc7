package logstore

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/compressmeter"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrOtherTopic is the error of Create if the partition's directory belongs to another topic id.
// The caller must call Release first.
var ErrOtherTopic = errors.New("the directory belongs to another topic")

// PartitionID names a partition; its directory is <Topic>-<Index>.
type PartitionID = checkpoint.PartitionID

// TopicID is a topic's id, stored in partition.metadata.
type TopicID = datadir.TopicID

// RetainedLog is the log of a partition that was released with Retain.
type RetainedLog = datadir.RetainedLog

// ErrFormatLevel is wrapped by errors about a format level that this binary does not support.
var ErrFormatLevel = datadir.ErrFormatLevel

// Options are the options of a Store.
type Options struct {
	FS     vfs.FS       // required
	Dir    string       // data directory; created if it does not exist
	Logger *slog.Logger // default slog.Default()
	// FlushInterval is the interval at which unsynced data is synced and checkpoints are written;
	// default 1 s.
	FlushInterval time.Duration
	// RetentionInterval is the interval at which retention runs; default 1 min. Retention does not
	// run more often than the flush.
	RetentionInterval time.Duration
	// FlushBytes is the number of bytes that may be appended to a log before a sync is requested
	// ahead of the next flush; default 64 MiB.
	FlushBytes int64
	// OpenFilesMax is the maximum number of open segment files, not counting files with unsynced
	// writes, which stay open. Default: half of OpenFilesLimit, at most 10,000.
	OpenFilesMax int
	// OpenFilesLimit is the maximum number of file descriptors of the process. The store warns when
	// its partitions approach the limit. Default: the process's soft limit.
	OpenFilesLimit uint64
	// Workers is the maximum number of logs that are opened, created, flushed or closed
	// concurrently. Default: depends on the work, up to 16. With 1 worker, the order of the calls
	// determines the order of all disk operations, except for the syncs that AppendReplicated and
	// Append request in the background.
	Workers int
	// indexEntriesMax is segment.Config.UnwrittenEntriesMax; only tests set it.
	indexEntriesMax int
	// Failed is called by a goroutine of the store when a log stops because its disk failed. It may
	// be nil.
	Failed func(PartitionID, error)
	// Damaged is called by a read that finds damage in the segment with the given base offset, once
	// for each segment. It must not block. It may be nil.
	Damaged func(id PartitionID, base int64)
}

// workers returns the number of concurrent workers: standard, or Options.Workers if that is set and
// smaller.
func (o Options) workers(standard int) int {
	if o.Workers > 0 {
		return min(o.Workers, standard)
	}
	return standard
}

// Store is one data directory, with one log per partition. It holds the directory's lock, so no
// other process uses the directory.
type Store struct {
	opts        Options
	lock        io.Closer // held from Open to the end of Close
	directoryID TopicID
	meta        []byte       // content of meta.properties
	formatLevel atomic.Int32 // result of FormatLevel

	compressed compressmeter.Meter
	commits    *committer
	handles    *vfs.Handles       // open segment files of all logs
	durableEnd durableEndCallback // see OnDurableEnd

	reserved atomic.Bool           // argument of SetReserved
	refusal  atomic.Pointer[error] // argument of SetRefusal

	verification atomic.Int32 // argument of SetVerification
	cleanEpoch   int64        // result of CleanEpoch
	bootEpoch    int64        // result of DirectoryFiles.BootEpoch
	boot         datadir.Boot // content of datadir.BootFile, guarded by changes
	epoch        atomic.Int64 // argument of SetBrokerEpoch, -1 before the first call

	changes sync.Mutex // one Create, Release or Close at a time
	saving  struct {
		sync.Mutex
		files *datadir.Checkpoints
	}
	mu struct {
		sync.Mutex
		closed  bool
		logs    logTable
		offline map[PartitionID]offline // directories whose log could not be opened
		// failures are logs that have stopped and were not yet reported to Options.Failed.
		failures []failure
		released []string // names of directories whose deletion is pending
		// missing contains the checkpointed state of the logs whose directory did not exist when
		// the store was opened.
		missing map[PartitionID]checkpoint.State
		// checkpoints tracks outages of the checkpoint writes in the background.
		checkpoints outage.State
		// reopened contains partitions whose retained log was reopened, or whose release was
		// interrupted. The partition's file "retained" is removed once the checkpoints list the
		// partition.
		reopened map[PartitionID]bool
	}

	wake   chan struct{} // signal that failures is not empty; its buffer has 1 element
	doomed chan struct{} // signal that released is not empty; its buffer has 1 element
	stop   chan struct{}
	done   chan struct{}
}

// offline is a log that could not be opened: the error, and the log's values from the checkpoints.
// These values must not be lost.
type offline struct {
	err   error
	saved checkpoint.State
}

// failure is a log that has stopped, and the error that stopped it. The store's goroutine passes
// both to Options.Failed.
type failure struct {
	id  PartitionID
	err error
}

// DirectoryID returns the id of the data directory, which is created once and stored in
// meta.properties.
func (s *Store) DirectoryID() TopicID { return s.directoryID }

// Compressed returns the meter of the logs' compression.
func (s *Store) Compressed() *compressmeter.Meter { return &s.compressed }

// Log returns a partition's log, or nil if the store has no log of the partition.
func (s *Store) Log(id PartitionID) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.logs.get(id)
}

// Logs returns all logs, sorted by partition. The caller must not modify the slice. TopicID and
// Retain identify the logs of deleted topics.
func (s *Store) Logs() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.logs.all()
}

// Offline returns the error of each partition whose log could not be opened.
func (s *Store) Offline() map[PartitionID]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	causes := make(map[PartitionID]error, len(s.mu.offline))
	for id, o := range s.mu.offline {
		causes[id] = o.err
	}
	return causes
}

// CleanEpoch returns the broker epoch of the last process in this directory if that process shut
// down cleanly and closed all logs. The logs then contain the same records as at that shutdown
// (KIP-966). It returns -1 if the last shutdown was not clean, or if the epoch is unknown.
func (s *Store) CleanEpoch() int64 { return s.cleanEpoch }

// SetBrokerEpoch sets the epoch of this broker process, which Close writes into the clean-shutdown
// marker. It must be called before the first append in that epoch. The first call in a boot of the
// machine writes datadir.BootFile.
func (s *Store) SetBrokerEpoch(epoch int64) {
	if s.epoch.Swap(epoch) == epoch {
		return
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if err := s.boot.Begin(s.opts.FS, s.opts.Dir, epoch); err != nil {
		s.opts.Logger.Warn("failed to record the boot id: elections do not prefer this disk", "error", err)
	}
}

// Close syncs everything, writes the checkpoints and the clean-shutdown marker, and unlocks the
// directory. First it waits until the store's goroutine has ended, so Options.Failed must not call
// Close. The error joins all failures. The store is closed even if Close fails; a second call does
// nothing. A Slice that a reader holds can still be read.
func (s *Store) Close() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.done
	s.commits.close()

	failed, sealed := s.closeLogs()
	if err := s.save(); err != nil {
		failed = append(failed, err)
	}
	if err := datadir.SaveClosed(s.opts.FS, s.opts.Dir, sealed, s.epoch.Load()); err != nil {
		failed = append(failed, err)
	}
	// Without the marker, the next start scans every log starting at its recovery point. This scan is
	// short for logs that were closed without an error.
	if len(failed) == 0 && len(s.Offline()) == 0 {
		if err := datadir.WriteCleanShutdown(s.opts.FS, s.opts.Dir, s.epoch.Load()); err != nil {
			failed = append(failed, fmt.Errorf("write %s: %w", datadir.CleanShutdownFile, err))
		}
	}
	if err := s.lock.Close(); err != nil {
		failed = append(failed, fmt.Errorf("unlock the data directory: %w", err))
	}
	return errors.Join(failed...)
}

// closeLogs closes all logs, several concurrently, because each log syncs its last files. It
// returns the errors and the closed logs' summaries.
func (s *Store) closeLogs() (failed []error, sealed map[PartitionID]checkpoint.ClosedLog) {
	var mu sync.Mutex
	sealed = map[PartitionID]checkpoint.ClosedLog{}
	parallel.Each(s.Logs(), s.opts.workers(backgroundWorkers), func(log *Log) {
		err := log.close()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, fmt.Errorf("close log %s: %w", log.id, err))
		}
		sealed[log.id] = log.closed
	})
	return failed, sealed
}

// logFailed is called when a log stops, under Log.mu. It does not call Options.Failed itself,
// because the callback may call the log and would deadlock.
func (s *Store) logFailed(id PartitionID, err error) {
	s.mu.Lock()
	s.mu.failures = append(s.mu.failures, failure{id, err})
	s.mu.Unlock()
	s.wakeUp()
}

// wakeUp makes the store's goroutine process Store.mu.failures. It never blocks: if a wake-up is
// already pending, no second one is needed.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// logTable is a set of logs. It is not safe for concurrent use. The zero value is an empty table.
type logTable struct {
	byID map[PartitionID]*Log
	// sorted contains the logs in the order of their partitions; nil if the slice has to be built
	// again. Every second, rounds of maintenance and of the cleaner iterate over thousands of logs,
	// but logs are rarely added or removed. The slice is replaced, never modified.
	sorted []*Log
}

func (t *logTable) get(id PartitionID) *Log { return t.byID[id] }

func (t *logTable) put(log *Log) {
	if t.byID == nil {
		t.byID = map[PartitionID]*Log{}
	}
	t.byID[log.id], t.sorted = log, nil
}

func (t *logTable) remove(id PartitionID) {
	delete(t.byID, id)
	t.sorted = nil
}

func (t *logTable) len() int { return len(t.byID) }

// all returns the logs, sorted by partition. The caller must not modify the slice.
func (t *logTable) all() []*Log {
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.byID),
			func(a, b *Log) int { return a.id.Compare(b.id) })
	}
	return t.sorted
}
