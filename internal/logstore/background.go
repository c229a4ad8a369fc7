package logstore

import (
	"errors"
	"path/filepath"
	"time"
)

const (
	// retentionInterval is how often retention looks, and producers expire. Kafka takes five minutes; consumers of old data that
	// is produced again need some time before it is gone.
	retentionInterval    = time.Minute
	flushIntervalDefault = time.Second
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
			s.tick(now, now.Sub(lastRetention) >= retentionInterval)
			if now.Sub(lastRetention) >= retentionInterval {
				lastRetention = now
			}
		}
	}
}

// tick is one round over all logs. A log's error concerns that log only: it is tried again in the next round, or it has stopped.
func (s *Store) tick(now time.Time, retention bool) {
	for _, log := range s.Logs() {
		err := errors.Join(log.rollIdle(now), log.flush())
		if retention {
			log.expireProducers(now)
			err = errors.Join(err, log.applyRetention(now))
		}
		if err != nil {
			s.opts.Logger.Warn("background work on a log", "partition", log.id, "error", err)
		}
	}
	if err := s.save(); err != nil {
		s.opts.Logger.Warn("write checkpoints", "error", err)
	}
}

func (l *Log) expireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.expire(now)
}

// reportFailures calls Options.Failed, without a lock.
func (s *Store) reportFailures() {
	s.mu.Lock()
	failures := s.mu.failures
	s.mu.failures = nil
	s.mu.Unlock()
	for _, f := range failures {
		if s.opts.Failed != nil {
			s.opts.Failed(f.id, f.err)
		}
	}
}

// deleteDoomed deletes the directories of released partitions. What is left when the store stops is deleted at the next start.
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
