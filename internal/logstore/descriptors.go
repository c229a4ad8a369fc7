package logstore

import (
	"fmt"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// idleFilesInterval is the interval at which unused files are closed. A file is closed once
	// it was not used for one to two intervals.
	idleFilesInterval = 10 * time.Second
	// idleSyncMax is the time after which the store interrupts the sync of idle indexes for the
	// next flush of all logs: the sync of thousands of files may take longer than the interval of
	// the flush.
	idleSyncMax = 500 * time.Millisecond
	// partitionsWarningInterval is the minimum time between two warnings about too many partitions.
	partitionsWarningInterval = time.Hour
)

// idleRound is the state of the rounds in which the store closes idle files. Only the store's
// goroutine uses it.
type idleRound struct {
	began   time.Time // of the present round, or of the last one
	running bool
	pending []*Log // logs whose indexes the present round has not synced yet
	failed  int    // logs whose indexes could not be synced in this round
	failure error  // of one of them
}

// closeIdleFiles closes the segment files that were not used since the previous round, except those
// that have to stay open. An idle log then has no open file. A round begins if idleFilesInterval
// has passed since the last one began, and may take several calls: after a crash, or after many
// partitions were busy, it syncs thousands of files. done reports whether this call ended a round.
func (s *Store) closeIdleFiles(r *idleRound, now time.Time) (done bool) {
	if !r.running {
		if now.Sub(r.began) < idleFilesInterval {
			return false
		}
		*r = idleRound{began: now, running: true, pending: s.Logs()}
	}
	if s.syncIdleIndexes(r); len(r.pending) > 0 {
		return false
	}
	r.running = false
	if r.failed > 0 {
		s.opts.Logger.Warn("failed to sync the indexes of idle segments", "partitions", r.failed,
			"error", r.failure)
	}
	s.handles.CloseIdle()
	return true
}

// syncIdleIndexes calls Log.syncIdleIndexes for the pending logs, until idleSyncMax has passed.
func (s *Store) syncIdleIndexes(r *idleRound) {
	until := time.Now().Add(idleSyncMax)
	var mu sync.Mutex
	var pending []*Log
	inParallel(r.pending, s.opts.workers(backgroundWorkers), func(log *Log) {
		if time.Now().After(until) {
			mu.Lock()
			defer mu.Unlock()
			pending = append(pending, log)
			return
		}
		if err := log.syncIdleIndexes(); err != nil {
			mu.Lock()
			defer mu.Unlock()
			r.failed, r.failure = r.failed+1, fmt.Errorf("%s: %w", log.id, err)
		}
	})
	r.pending = pending
}

// syncIdleIndexes syncs the indexes of the active segment if nothing was added to them since the
// previous call. Only then can the files be closed. A rolled segment needs no such sync, because
// the next flush seals it.
func (l *Log) syncIdleIndexes() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	list := l.list.Acquire()
	if list == nil {
		return nil
	}
	defer list.Release()
	if err := list.Active().SyncIdleIndexes(); err != nil {
		return l.syncFailed(list.Active(), err)
	}
	return nil
}

// openFilesLimit returns the number of file descriptors that this process may have, or 0 if it is
// unknown.
func openFilesLimit() uint64 {
	limit, err := vfs.OpenFiles()
	if err != nil {
		return 0
	}
	return limit.Soft
}

// openFilesDefault returns half of a limit of file descriptors, at most 10,000. The other half
// remains for connections, and for segment files that must stay open. If the limit is unknown (0),
// it returns 10,000.
func openFilesDefault(limit uint64) int {
	const common = 10_000
	if limit == 0 || limit/2 > common {
		return common
	}
	return max(int(limit/2), 16)
}

// partitionsWarning decides when the store warns that it has too many partitions for the limit of
// file descriptors.
type partitionsWarning struct{ last time.Time }

// due reports whether a warning is due. A log has one open file while it has unsynced records, so
// with more logs than half of the limit, their files and the connections of clients may need more
// descriptors than the process has.
func (w *partitionsWarning) due(now time.Time, logs int, limit uint64) bool {
	if limit == 0 || uint64(logs) <= limit/2 ||
		!w.last.IsZero() && now.Sub(w.last) < partitionsWarningInterval {
		return false
	}
	w.last = now
	return true
}

// warnOfPartitions logs a warning if the store has too many partitions for the limit of file
// descriptors. Only the store's goroutine calls it.
func (s *Store) warnOfPartitions(w *partitionsWarning, now time.Time) {
	s.mu.Lock()
	logs := s.mu.logs.len()
	s.mu.Unlock()
	if limit := s.opts.OpenFilesLimit; w.due(now, logs, limit) {
		s.opts.Logger.Warn("partitions approach the limit of open files; raise RLIMIT_NOFILE or "+
			"add brokers", "partitions", logs, "limit", limit)
	}
}
