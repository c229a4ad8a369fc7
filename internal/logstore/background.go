package logstore

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/outage"
)

const (
	// retentionIntervalDefault is the interval of retention and of the expiry of producers. Kafka's
	// is five minutes; consumers of old data that is produced again need some time before it is
	// deleted.
	retentionIntervalDefault = time.Minute
	// flushIntervalDefault bounds the data that a power failure can remove from a log, and the data
	// that the next start has to scan, as long as the disk keeps up with the appends.
	flushIntervalDefault = time.Second
	// backgroundWorkers is the number of logs that are flushed concurrently.
	backgroundWorkers = 8
)

// run is the store's goroutine; doc.go lists its work. Close stops and joins it.
func (s *Store) run() {
	defer close(s.done)
	ticker := time.NewTicker(s.opts.FlushInterval)
	defer ticker.Stop()
	lastRetention := time.Now()
	for {
		select {
		case <-s.stop:
			s.reportFailures()
			return
		case <-s.wake:
			s.reportFailures()
			s.deleteReleased()
		case now := <-ticker.C:
			s.tick(now, now.Sub(lastRetention) >= s.opts.RetentionInterval)
			if now.Sub(lastRetention) >= s.opts.RetentionInterval {
				lastRetention = now
			}
		}
	}
}

// tick runs one round of maintenance over all logs. An error affects one log only: the next round
// retries the failed step, unless the log has stopped. Rounds come every second, so only the first
// failure in a row is logged.
//
// The order matters: the flush seals a segment that was rolled in the same round, retention finds
// it sealed, and the checkpoints, which come last, describe everything that was synced.
func (s *Store) tick(now time.Time, retention bool) {
	inParallel(s.Logs(), s.opts.workers(backgroundWorkers),
		func(log *Log) { s.maintain(log, now, retention) })
	err := s.save()
	switch begins, ends, failed := recordOutcome(&s.mu, &s.mu.checkpoints, err, now); {
	case begins:
		s.opts.Logger.Warn("failed to write checkpoints", "error", err)
	case ends:
		s.opts.Logger.Info("checkpoint writes succeed again", "failedAttempts", failed)
	}
}

// maintain runs one round of maintenance on one log.
func (s *Store) maintain(log *Log, now time.Time, retention bool) {
	before := log.disk.synced.Load()
	err := errors.Join(log.rollIdle(now), log.flush())
	if retention {
		log.expireProducers(now)
		err = errors.Join(err, log.applyRetention(now))
	}
	if log.disk.synced.Load() != before {
		s.durableEndChanged(log)
	}
	switch begins, ends, failed := recordOutcome(&log.mu, &log.mu.background, err, now); {
	case begins:
		s.opts.Logger.Warn("failed to flush, roll or expire a log", "partition", log.id, "error",
			err)
	case ends:
		s.opts.Logger.Info("log flushed again after failures", "partition", log.id,
			"failedAttempts",
			failed)
	}
}

// inParallel calls do for each element, with at most workersMax concurrent calls, and returns when
// all have returned. The workers wait for the disk more than for the processor; a log whose sync
// takes long delays only the end.
func inParallel[T any](all []T, workersMax int, do func(T)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(workersMax, len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				do(all[i])
			}
		})
	}
	workers.Wait()
}

// recordOutcome records the success or failure of a step in its outage.State, under the lock that
// guards that state. It reports whether the caller has to log the begin or the end of an outage.
// The caller logs, because logging may block and must not happen under a lock.
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

// expireProducers removes idle producers. It visits all of them under Log.mu, so it runs once a
// minute and not at each append.
func (l *Log) expireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.Expire(now)
}

// reportFailures calls Options.Failed, without a lock: the callback may call the store or the log.
// Each failure is reported once, because a log stops once.
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

// deleteReleased deletes the directories of released partitions. If the store stops before all of
// them are deleted, the next start deletes the rest.
func (s *Store) deleteReleased() {
	s.mu.Lock()
	doomed := s.mu.released
	s.mu.released = nil
	s.mu.Unlock()
	for _, name := range doomed {
		if err := s.opts.FS.RemoveAll(filepath.Join(s.opts.Dir, name)); err != nil {
			s.opts.Logger.Warn("failed to delete the directory of a removed partition",
				"directory", name, "error", err)
		}
	}
}
