package logstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// retentionIntervalDefault is the interval at which retention runs and producers are expired.
	// Kafka's default is five minutes. The interval is not much shorter than a minute, because
	// records that are produced with old timestamps may expire at once, and consumers need some
	// time to read them.
	retentionIntervalDefault = time.Minute
	// flushIntervalDefault is the interval at which all logs are flushed. While the disk keeps up
	// with the appends, a power failure can remove the data of about one interval from a log, and
	// the next start has to scan as much.
	flushIntervalDefault = time.Second
	// backgroundWorkers is the maximum number of logs that are flushed or closed concurrently.
	backgroundWorkers = 8
)

// run is the function of the store's goroutine; doc.go lists what it does. Close stops the
// goroutine and waits until it has ended.
func (s *Store) run() {
	defer close(s.done)
	var deletions sync.WaitGroup
	deletions.Go(s.deleteReleasedDirectories)
	defer deletions.Wait()
	ticker := time.NewTicker(s.opts.FlushInterval)
	defer ticker.Stop()
	lastRetention := time.Now()
	idle := idleRound{began: time.Now()}
	var partitions partitionsWarning
	for {
		select {
		case <-s.stop:
			s.reportFailures()
			return
		case <-s.wake:
			s.reportFailures()
		case now := <-ticker.C:
			s.tick(now, now.Sub(lastRetention) >= s.opts.RetentionInterval)
			if now.Sub(lastRetention) >= s.opts.RetentionInterval {
				lastRetention = now
			}
			if s.closeIdleFiles(&idle, now) {
				s.warnOfPartitions(&partitions, now)
			}
		}
	}
}

// tick runs one round of maintenance over all logs. An error affects only its log: the next round
// retries the failed step, unless the log has stopped. A round runs every second, so tick logs only
// the first of several consecutive failures.
//
// The order of the steps matters. The flush seals the segments that were rolled in the same round,
// so retention finds these segments sealed. The checkpoints are written last, so they include
// everything that the round has synced.
func (s *Store) tick(now time.Time, retention bool) {
	parallel.Each(s.Logs(), s.opts.workers(backgroundWorkers),
		func(log *Log) { s.maintain(log, now, retention) })
	err := errors.Join(s.saveEpochs(now), s.save())
	switch begins, ends, failed := recordOutcome(&s.mu, &s.mu.checkpoints, err, now); {
	case begins:
		s.opts.Logger.Warn("failed to write checkpoints", "error", err)
	case ends:
		s.opts.Logger.Info("checkpoint writes succeed again", "failedAttempts", failed)
	}
}

// maintain runs one round of maintenance on one log.
func (s *Store) maintain(log *Log, now time.Time, retention bool) {
	before := log.disk.Synced()
	err := errors.Join(log.rollIdle(now), log.disk.Flush())
	if retention {
		log.Producers().expire(now)
		err = errors.Join(err, log.applyRetention(now))
	}
	if log.disk.Synced() != before {
		s.durableEndChanged(log)
	}
	switch begins, ends, failed := recordOutcome(&log.mu, &log.mu.background, err, now); {
	case begins:
		s.opts.Logger.Warn("failed to flush, roll or expire a log", "partition", log.id, "error",
			err)
	case ends:
		s.opts.Logger.Info("log flushed again after failures", "partition", log.id,
			"failedAttempts", failed)
	}
}

const (
	// epochFilesMin is the number of epoch files that a round of maintenance may write in any case.
	epochFilesMin = 32
	// epochRounds is the number of rounds over which the store spreads the writes when the epoch
	// files of many logs are due at once.
	epochRounds = 30
)

// epochsDue reports whether the log's epoch file must be written at the time now.
func epochsDue(log *Log, now time.Time) bool {
	log.mu.Lock()
	defer log.mu.Unlock()
	handles := log.list.Handles()
	return len(handles) > 0 && log.epochs.DueLocked(now, handles[len(handles)-1].Base())
}

// saveEpochs writes the epoch files that are due at the time now. It limits the number of files,
// because writing the files of many logs at once would occupy the disk. The next rounds write the
// other files.
func (s *Store) saveEpochs(now time.Time) error {
	var due []*Log
	for _, log := range s.Logs() {
		if epochsDue(log, now) {
			due = append(due, log)
		}
	}
	due = due[:min(len(due), max(epochFilesMin, len(due)/epochRounds))]
	failed := make(chan error, len(due))
	parallel.Each(due, s.opts.workers(backgroundWorkers), func(log *Log) {
		if err := log.epochs.SaveDue(); err != nil {
			failed <- fmt.Errorf("partition %s: %w", log.id, err)
		}
	})
	close(failed)
	var faults []error
	for err := range failed {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// recordOutcome stores the success or failure of a step in the outage.State o, under the lock that
// guards o. It reports whether an outage begins or ends with this step. The caller logs the result,
// because logging can block and must not happen under a lock.
func recordOutcome(lock sync.Locker, o *outage.State, err error, now time.Time) (begins, ends bool,
	failed int) {
	lock.Lock()
	defer lock.Unlock()
	if err != nil {
		return o.Fail(now), false, 0
	}
	failed, ends = o.Succeed()
	return false, ends, failed
}

// reportFailures calls the OnDurableEnd callback and Options.Failed for each log that has stopped
// since the last call. It holds no lock during these calls, because a callback may call the store
// or the log. Each log is reported once, because a log stops only once.
func (s *Store) reportFailures() {
	s.mu.Lock()
	failures := s.mu.failures
	s.mu.failures = nil
	s.mu.Unlock()
	for _, f := range failures {
		if callback := s.durableEnd.Load(); callback != nil {
			(*callback)(f.id)
		}
		if s.opts.Failed != nil {
			s.opts.Failed(f.id, f.err)
		}
	}
}

const (
	// idleFilesInterval is the interval at which unused files are closed. A file is closed after
	// one to two intervals without use.
	idleFilesInterval = 10 * time.Second
	// idleSyncMax is the time after which the store interrupts the sync of idle indexes to run the
	// next flush of all logs: syncing thousands of files can take longer than the flush interval.
	idleSyncMax = 500 * time.Millisecond
	// partitionsWarningInterval is the minimum time between two warnings about too many partitions.
	partitionsWarningInterval = time.Hour
)

// idleRound is the state of one round in which the store closes idle files. Only the store's
// goroutine uses it.
type idleRound struct {
	began   time.Time // start of the current or the last round
	running bool
	pending []*Log // logs whose indexes are not synced yet in this round
	failed  int    // number of logs whose indexes failed to sync in this round
	failure error  // one of these failures
}

// closeIdleFiles closes the segment files that were not used since the previous round, except files
// that have to stay open. Afterwards an idle log has no open file. A round begins once
// idleFilesInterval has passed since the start of the last round. A round may take several calls:
// after a crash, or after many partitions were busy, it syncs thousands of files. done reports
// whether this call ended a round.
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

// syncIdleIndexes calls durability.Disk.SyncIdleIndexes for the pending logs until idleSyncMax has
// passed.
func (s *Store) syncIdleIndexes(r *idleRound) {
	until := time.Now().Add(idleSyncMax)
	var mu sync.Mutex
	var pending []*Log
	parallel.Each(r.pending, s.opts.workers(backgroundWorkers), func(log *Log) {
		if time.Now().After(until) {
			mu.Lock()
			defer mu.Unlock()
			pending = append(pending, log)
			return
		}
		if err := log.disk.SyncIdleIndexes(); err != nil {
			mu.Lock()
			defer mu.Unlock()
			r.failed, r.failure = r.failed+1, fmt.Errorf("%s: %w", log.id, err)
		}
	})
	r.pending = pending
}

// openFilesLimit returns the limit on this process's file descriptors, or 0 if the limit is
// unknown.
func openFilesLimit() uint64 {
	limit, err := vfs.OpenFiles()
	if err != nil {
		return 0
	}
	return limit.Soft
}

// openFilesDefault returns half of the given limit on file descriptors, but at least 16 and at most
// 10,000. The other half remains for connections, and for segment files that must stay open. If the
// limit is unknown (0), it returns 10,000.
func openFilesDefault(limit uint64) int {
	const common = 10_000
	if limit == 0 || limit/2 > common {
		return common
	}
	return max(int(limit/2), 16)
}

// partitionsWarning decides when the store warns about too many partitions for the limit on file
// descriptors.
type partitionsWarning struct{ last time.Time }

// due reports whether a warning is due: the number of logs exceeds half of the limit on file
// descriptors, and partitionsWarningInterval has passed since the last warning. A log has an open
// file while it has unsynced records, so these files and the clients' connections together may
// exceed the limit.
func (w *partitionsWarning) due(now time.Time, logs int, limit uint64) bool {
	if limit == 0 || uint64(logs) <= limit/2 ||
		!w.last.IsZero() && now.Sub(w.last) < partitionsWarningInterval {
		return false
	}
	w.last = now
	return true
}

// warnOfPartitions logs a warning if the store has too many partitions for the limit on file
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
