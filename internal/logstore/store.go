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
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrOtherTopic is what Create fails with when the partition's directory belongs to another topic
// id: Release it first.
var ErrOtherTopic = errors.New("the directory belongs to another topic")

// PartitionID names a partition; its directory is <Topic>-<Index>.
type PartitionID = checkpoint.PartitionID

// TopicID is a topic's id, kept in partition.metadata.
type TopicID [16]byte

// LogValue implements slog.LogValuer: the form that Kafka's tools and a Topic's status show.
func (t TopicID) LogValue() slog.Value {
	return slog.StringValue(t.String())
}

// Options of a Store.
type Options struct {
	FS     vfs.FS       // must be set
	Dir    string       // data directory; made if it is not there
	Logger *slog.Logger // default slog.Default()
	// how often unsynced data is synced and checkpoints are written; default 1s
	FlushInterval time.Duration
	// RetentionInterval is how often retention looks, at most with every flush; default 1 min.
	RetentionInterval time.Duration
	// FlushBytes is how much is appended to a log before a sync of it is asked for ahead of the
	// next flush; default 64 MiB.
	FlushBytes int64
	// OpenFilesMax is how many segment files stay open; those that were written and not synced yet
	// come on top. Default: half of what the process may have.
	OpenFilesMax int
	// Workers bounds how many logs are opened, made, flushed or closed at once. Default: as many as
	// suits the work, up to 16. With 1 the order of all that reaches the disk follows from the
	// order of calls, but for what AppendReplicated and Append sync beside them.
	Workers int
	// Failed is called, from a goroutine of the store, when a log stops because its disk failed.
	// May be nil.
	Failed func(PartitionID, error)
}

// workers is how many logs are worked on at once by work that would use so many.
func (o Options) workers(standard int) int {
	if o.Workers > 0 {
		return min(o.Workers, standard)
	}
	return standard
}

// Store is one data directory: a log a partition. It holds the directory's lock.
type Store struct {
	opts        Options
	lock        io.Closer // held from Open to the end of Close
	directoryID TopicID

	compressed compressionMeter
	commits    *committer
	handles    *vfs.Handles // the segment files of all logs
	durableEnd durableEndCallback

	cleanEpoch int64        // what CleanEpoch returns
	epoch      atomic.Int64 // what SetBrokerEpoch was told, -1 if nothing

	changes sync.Mutex // one Create, Release or Close at a time
	saving  struct {
		sync.Mutex
		written map[string]string // checkpoint file -> what it holds
	}
	mu struct {
		sync.Mutex
		closed   bool
		logs     map[PartitionID]*Log
		offline  map[PartitionID]offline // directories whose log could not be opened
		failures []failure               // for Options.Failed
		released []string                // directories to be deleted
		// checkpoints is the outage of the background's writing of them.
		checkpoints outage.State
		// reopened are logs that were taken up again, or half put aside: their file "retained" goes
		// once the checkpoints list them.
		reopened map[PartitionID]bool
	}

	wake chan struct{} // something is in failures or doomed; buffered 1
	stop chan struct{}
	done chan struct{}
}

// offline is a log that could not be opened: why, and what the checkpoints know of it, which must
// not be lost.
type offline struct {
	err   error
	saved checkpointState
}

// failure is a log that stopped, and why; it waits here for the store's goroutine.
type failure struct {
	id  PartitionID
	err error
}

// DirectoryID identifies the disk: made once, kept in meta.properties.
func (s *Store) DirectoryID() TopicID { return s.directoryID }

// Log returns a partition's log, nil if there is none.
func (s *Store) Log(id PartitionID) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.logs[id]
}

// Logs returns all logs, sorted. With TopicID and Retain the caller can tell which of them belong
// to topics that are gone.
func (s *Store) Logs() []*Log {
	s.mu.Lock()
	logs := slices.Collect(maps.Values(s.mu.logs))
	s.mu.Unlock()
	slices.SortFunc(logs, func(a, b *Log) int { return a.id.Compare(b.id) })
	return logs
}

// Offline returns the partitions whose log could not be opened, and why.
func (s *Store) Offline() map[PartitionID]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	causes := make(map[PartitionID]error, len(s.mu.offline))
	for id, o := range s.mu.offline {
		causes[id] = o.err
	}
	return causes
}

// CleanEpoch is the broker epoch (incarnation) that closed this directory in order, with all its
// logs, before this store was opened; -1 if nobody did, or without an epoch. What the logs hold now
// is what that incarnation held (KIP-966).
func (s *Store) CleanEpoch() int64 { return s.cleanEpoch }

// SetBrokerEpoch tells the store in which incarnation its broker runs, for Close to write.
func (s *Store) SetBrokerEpoch(epoch int64) { s.epoch.Store(epoch) }

// Close syncs everything, writes checkpoints and the clean-shutdown marker, and unlocks the
// directory. It joins the store's goroutine first, so Options.Failed must not call it. The error
// joins what failed; the store is closed all the same, and a second call does nothing. Slices that
// are held can be read on.
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
	if err := s.saveSummaries(sealed); err != nil {
		failed = append(failed, err)
	}
	// Without the marker the next start scans every log from its recovery point: for those that
	// closed well, next to nothing.
	if len(failed) == 0 && len(s.Offline()) == 0 {
		if err := s.writeCleanShutdown(); err != nil {
			failed = append(failed, fmt.Errorf("write %s: %w", cleanShutdownFile, err))
		}
	}
	if err := s.lock.Close(); err != nil {
		failed = append(failed, fmt.Errorf("unlock the data directory: %w", err))
	}
	return errors.Join(failed...)
}

// closeLogs closes all logs, a few at a time: each syncs its last files.
func (s *Store) closeLogs() (failed []error, sealed map[PartitionID]checkpoint.ClosedLog) {
	var mu sync.Mutex
	sealed = map[PartitionID]checkpoint.ClosedLog{}
	inParallel(s.Logs(), s.opts.workers(backgroundWorkers), func(log *Log) {
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

// logFailed is told by a log, which holds its mutex, that it stopped. So it does not call
// Options.Failed itself: that one may ask the log, and would wait for itself.
func (s *Store) logFailed(id PartitionID, err error) {
	s.mu.Lock()
	s.mu.failures = append(s.mu.failures, failure{id, err})
	s.mu.Unlock()
	s.wakeUp()
}

// awake has the store's goroutine look at failures and doomed. It never waits: one wake-up that is
// pending is enough for all.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}
