package cleaner

import (
	"context"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// logState is the cleaner's state of one log.
//
// It is created by the scheduler when it first sees the log, or by CleanNow. A pass runs from
// startLocked to finish. forgetLocked drops the state when the log is gone or no longer compacted,
// but never while a pass runs. Cleaner.mu guards all fields but log, which never changes.
type logState struct {
	// log identifies the log: a topic that is deleted and created again has another Compaction
	// under the same id, and another state.
	log       *logstore.Compaction
	firstSeen time.Time
	due       time.Time // time since which a pass is due; zero if none is due

	quarantine quarantine
	request    request
	estimate   estimate
	oldest     time.Time // clean.Stats.OldestGarbage of the last pass
	ended      time.Time // the last pass
	counters   counters
	last       *report.Pass // the last pass that ended; nil before the first. Immutable
	// Tickets of requests: asked is the highest that was issued, served the highest that a pass has
	// served; served <= asked.
	asked, served int64

	// Of the running pass.
	cancel   context.CancelFunc // nil if no pass runs
	trigger  string
	serving  int64                 // ticket of the request that the pass serves, 0 if none
	settings *topicconfig.Settings // of the pass
	// truncations is the number of truncations of the log (logstore.Compaction.Truncations) at the
	// time of the pass's view of the log. It is truncationsUnknown while the pass has no view yet.
	truncations int64
	waiting     bool  // for its first worker slot
	granted     int64 // bytes of memory
	progress    clean.PassProgress
	began       time.Time // when it got its first worker slot
}

// truncationsUnknown is the value of logState.truncations while a pass has no view of the log yet.
const truncationsUnknown = -1

// running reports whether a pass runs, or was cancelled and has not ended yet. It needs Cleaner.mu.
func (s *logState) running() bool { return s.cancel != nil }

// stateLocked returns the state of a log, nil if the state under its id is of an earlier log that
// is not forgotten yet. It needs Cleaner.mu.
func (c *Cleaner) stateLocked(log *logstore.Compaction, now time.Time) *logState {
	state := c.mu.logs[log.ID()]
	if state == nil {
		state = &logState{log: log, firstSeen: now}
		c.mu.logs[log.ID()] = state
	}
	if state.log != log {
		return nil
	}
	return state
}

// quarantine delays the next pass over a log whose last pass failed: each attempt may read the
// whole log. A restart ends the quarantine, because it may have removed the cause of the failure.
// The zero value delays nothing.
type quarantine struct {
	failures int // in a row
	until    time.Time
	settings *topicconfig.Settings // of the failed pass: new settings end the quarantine
}

// The backoff of a quarantine: a minute, doubled with each failure, an hour at most.
const (
	quarantineShortest = time.Minute
	quarantineLongest  = time.Hour
)

// after returns the quarantine after one more failure: 1, 2, 4 ... 32 minutes, then an hour.
// Kafka's lasts until the broker restarts (I7).
func (q quarantine) after(now time.Time, settings *topicconfig.Settings) quarantine {
	wait := quarantineLongest
	if q.failures < 6 {
		wait = quarantineShortest << q.failures
	}
	return quarantine{failures: q.failures + 1, until: now.Add(wait), settings: settings}
}

// active reports whether the log must still wait. Settings are compared by pointer
// (logstore.Compaction.Settings).
func (q quarantine) active(now time.Time, settings *topicconfig.Settings) bool {
	return q.failures > 0 && q.settings == settings && now.Before(q.until)
}
