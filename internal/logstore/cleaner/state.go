package cleaner

import (
	"context"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// logState is the cleaner's state of one log.
//
// The scheduler or CleanNow creates the state when it first uses the log. A pass runs from
// startLocked to finish. forgetLocked deletes the state after the log was closed or is no longer
// compacted, but never while a pass runs. Cleaner.mu guards all fields except log, which never
// changes.
type logState struct {
	// log identifies the log. If a topic is deleted and created again, its new log has the same id
	// but another Compaction, and therefore another state.
	log       *compaction.Compaction
	firstSeen time.Time // time at which the state was created
	due       time.Time // time since which the log has needed a pass; zero if it needs none
	pressure  Pressure
	rolled    time.Time // time of the log's last roll by rollActive

	quarantine quarantine
	request    request
	estimate   estimate
	oldest     time.Time // time at which the oldest garbage left by the last pass was superseded
	ended      time.Time // end of the last pass
	garbage    countedGarbage
	counters   counters
	// before contains the totals of the passes that ended before the state was created, including
	// passes of earlier processes.
	before      passlog.Totals
	last        *report.Pass // last pass that has ended; nil if there is none; immutable
	lastSuccess *float64     // end of the last successful pass, in Unix seconds; immutable
	// asked is the highest ticket that CleanNow has issued. served is the highest ticket that a
	// pass has served; served <= asked.
	asked, served int64

	// The following fields describe the running pass.
	cancel   context.CancelFunc // nil if no pass runs
	trigger  string
	serving  int64                 // ticket of the request that the pass serves, or 0
	settings *topicconfig.Settings // settings with which the pass was started
	// truncations is logstore.Compaction.Truncations at the time when the pass read the log's
	// state. Before that time it is truncationsUnknown.
	truncations int64
	waiting     bool  // true while the pass waits for its first worker slot
	granted     int64 // bytes of memory that the pass may use
	progress    clean.PassProgress
	rate        ioRate
	throttled   time.Duration // sum of all its goroutines' waits for the I/O budget
	began       time.Time     // time at which the pass got its first worker slot
	passID      int64         // id of the pass in the history; 0 before the pass began
	// chosen contains the base offsets of the segments that the pass will rewrite. The value
	// reports whether the pass must rewrite the segment.
	chosen map[int64]bool
}

// countedGarbage is the number of dead records that the last pass has counted and left. They stay
// in the log until another pass. The zero value means that no pass has counted dead records.
type countedGarbage struct {
	known       bool
	records     int64
	truncations int64 // the log's number of truncations when the pass counted
	logStart    int64 // log start at the start of the pass; retention above it also deletes garbage
}

// distinctKeys returns the upper limit of the number of keys in a log with the given number of
// records, or nil if it is unknown. The caller holds Cleaner.mu.
func (s *logState) distinctKeys(view logView, records int64) *int64 {
	g := s.garbage
	if !g.known || g.truncations != view.Truncations || g.logStart != view.LogStart || s.running() {
		return nil
	}
	return new(max(0, records-g.records))
}

// truncationsUnknown is the value of logState.truncations before the pass has read its log's state.
const truncationsUnknown = -1

// running reports whether a pass runs, including a pass that was canceled and has not ended yet.
// The caller holds Cleaner.mu.
func (s *logState) running() bool { return s.cancel != nil }

// stateLocked returns a log's state, and creates the state if necessary. It returns nil while the
// state of an earlier log with the same id still exists.
func (c *Cleaner) stateLocked(log *compaction.Compaction, now time.Time) *logState {
	state := c.mu.logs[log.ID()]
	if state == nil {
		state = c.newState(log, now)
		state.pressure = c.mu.pressure
		c.mu.logs[log.ID()] = state
	}
	if state.log != log {
		return nil
	}
	return state
}

// newState returns the state of a log that has no state, because no pass was started since the
// broker's start or since the state was deleted.
func (c *Cleaner) newState(log *compaction.Compaction, now time.Time) *logState {
	before := c.history.Totals(keyOf(log))
	return &logState{log: log, firstSeen: now, before: before, last: before.LastPass,
		lastSuccess: before.LastSuccess}
}

// quarantine delays the next pass over a log whose last pass failed, because each attempt may read
// the whole log. A restart of the broker ends the quarantine, because the restart may have removed
// the cause of the failure. The zero value delays nothing.
type quarantine struct {
	failures int // number of consecutive failed passes
	until    time.Time
	settings *topicconfig.Settings // settings of the failed pass; other settings end the quarantine
}

// The backoff of a quarantine starts at one minute, doubles with each failure, and is at most an
// hour.
const (
	quarantineShortest = time.Minute
	quarantineLongest  = time.Hour
)

// after returns the quarantine after one more failure. In Kafka a failed log is not compacted again
// until the broker restarts (I7).
func (q quarantine) after(now time.Time, settings *topicconfig.Settings) quarantine {
	wait := quarantineLongest
	if q.failures < 6 {
		wait = quarantineShortest << q.failures
	}
	return quarantine{failures: q.failures + 1, until: now.Add(wait), settings: settings}
}

// active reports whether the quarantine still delays the next pass. It compares the settings by
// pointer (logstore.Compaction.Settings).
func (q quarantine) active(now time.Time, settings *topicconfig.Settings) bool {
	return q.failures > 0 && q.settings == settings && now.Before(q.until)
}
