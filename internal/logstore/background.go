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
	// retentionIntervalDefault is how often retention looks, and producers expire. Kafka takes five
	// minutes; consumers of old data that is produced again need some time before it is gone.
	retentionIntervalDefault = time.Minute
	// flushIntervalDefault bounds, on a disk that keeps up, what a power cut takes from a log and
	// what the next start has to scan.
	flushIntervalDefault = time.Second
	// backgroundWorkers is how many logs are flushed at once.
	backgroundWorkers = 8
)

// run is the store's goroutine; see doc.go for what it does. Close stops and joins it.
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
			s.deleteDoomed()
		case now := <-ticker.C:
			s.tick(now, now.Sub(lastRetention) >= s.opts.RetentionInterval)
			if now.Sub(lastRetention) >= s.opts.RetentionInterval {
				lastRetention = now
			}
		}
	}
}

// tick is one round over all logs. A log's error concerns that log only: it is tried again in the
// next round, or it has stopped. Rounds come each second, so only the first failure of a row is
// logged.
//
// The order matters: a segment that is rolled is sealed by the flush of the same round, retention
// finds it sealed, and the checkpoints, which come last, tell of everything that was synced.
func (s *Store) tick(now time.Time, retention bool) {
	inParallel(s.Logs(), s.opts.workers(backgroundWorkers),
		func(log *Log) { s.tend(log, now, retention) })
	err := s.save()
	switch begins, ends, failed := follow(&s.mu, &s.mu.checkpoints, err, now); {
	case begins:
		s.opts.Logger.Warn("checkpoints cannot be written", "error", err)
	case ends:
		s.opts.Logger.Info("checkpoints are written again", "failed", failed)
	}
}

// tend is one round over one log.
func (s *Store) tend(log *Log, now time.Time, retention bool) {
	before := log.disk.synced.Load()
	err := errors.Join(log.rollIdle(now), log.flush())
	if retention {
		log.expireProducers(now)
		err = errors.Join(err, log.applyRetention(now))
	}
	if log.disk.synced.Load() != before {
		s.settled(log)
	}
	switch begins, ends, failed := follow(&log.mu, &log.mu.background, err, now); {
	case begins:
		s.opts.Logger.Warn("background work on a log fails", "partition", log.id, "error", err)
	case ends:
		s.opts.Logger.Info("background work on a log succeeds again", "partition", log.id, "failed",
			failed)
	}
}

// inParallel does something for each, a few at a time, and returns when all is done. The workers
// wait for the disk more than for the processor; one log whose sync takes long holds up only the
// end.
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

// follow notes the end of a piece of work in its outage, under the lock that guards it, and returns
// what is to be logged. Logging is left to the caller: it may block, and a lock must not be held
// over it.
func follow(lock sync.Locker, o *outage.State, err error, now time.Time) (begins, ends bool,
	failed int) {
	lock.Lock()
	defer lock.Unlock()
	if err != nil {
		return o.Fail(now), false, 0
	}
	failed, ends = o.Succeed()
	return false, ends, failed
}

// expireProducers forgets idle producers. It walks all of them under Log.mu, so it is done once a
// minute and not at each append.
func (l *Log) expireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.Expire(now)
}

// reportFailures calls Options.Failed, without a lock: it may ask the store or the log. Each
// failure is told once, as a log stops once.
func (s *Store) reportFailures() {
	s.mu.Lock()
	failures := s.mu.failures
	s.mu.failures = nil
	s.mu.Unlock()
	for _, f := range failures {
		if settled := s.settlement.Load(); settled != nil {
			(*settled)(f.id)
		}
		if s.opts.Failed != nil {
			s.opts.Failed(f.id, f.err)
		}
	}
}

// deleteDoomed deletes the directories of released partitions. What is left when the store stops is
// deleted at the next start.
func (s *Store) deleteDoomed() {
	s.mu.Lock()
	doomed := s.mu.doomed
	s.mu.doomed = nil
	s.mu.Unlock()
	for _, name := range doomed {
		if err := s.opts.FS.RemoveAll(filepath.Join(s.opts.Dir, name)); err != nil {
			s.opts.Logger.Warn("delete a released directory", "directory", name, "error", err)
		}
	}
}
