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
// The scheduler, or CleanNow, creates it when it first uses the log. A pass runs from startLocked
// to finish. forgetLocked deletes the state after the log was closed or is no longer compacted, but
// never while a pass runs. Cleaner.mu guards all fields but log, which never changes.
type logState struct {
	// log identifies the log. If a topic is deleted and created again, its new log has the same id
	// but another Compaction, and so another state.
	log       *compaction.Compaction
	firstSeen time.Time // creation of the state
	due       time.Time // since when the log has needed a pass; zero if it needs none
	pressure  Pressure
	rolled    time.Time // last roll of the log by rollActive

	quarantine quarantine
	request    request
	estimate   estimate
	oldest     time.Time // time at which the oldest garbage that the last pass left was superseded
	ended      time.Time // end of the last pass
	garbage    countedGarbage
	counters   counters
	// before is the totals of the passes that ended before the state was created, also in earlier
	// processes.
	before      passlog.Totals
	last        *report.Pass // the last pass that has ended; nil if there is none. Immutable
	lastSuccess *float64     // end of the last successful pass, in Unix seconds. Immutable
	// asked is the highest ticket that CleanNow has issued, served the highest that a pass has
	// served; served <= asked.
	asked, served int64

	// The following fields describe the running pass.
	cancel   context.CancelFunc // nil if no pass runs
	trigger  string
	serving  int64                 // ticket of the request that the pass serves, or 0
	settings *topicconfig.Settings // the settings with which the pass was started
	// truncations is logstore.Compaction.Truncations at the time when the pass read the state of
	// the log. Before that it is truncationsUnknown.
	truncations int64
	waiting     bool  // the pass waits for its first worker slot
	granted     int64 // bytes of memory that the pass may use
	progress    clean.PassProgress
	rate        ioRate
	throttled   time.Duration // sum of the waits of all its goroutines for the I/O budget
	began       time.Time     // time at which the pass got its first worker slot
	passID      int64         // of the pass in the history; 0 before it began
	// chosen contains the base offsets of the segments that the pass will rewrite, and whether it
	// must.
	chosen map[int64]bool
}

// countedGarbage is the number of dead records that the last pass has counted and left. They stay
// in the log until another pass. The zero value means that no pass has counted them.
type countedGarbage struct {
	known       bool
	records     int64
	truncations int64 // of the log when the pass counted
	logStart    int64 // log start at the start of the pass; retention above it also deletes garbage
}

// distinctKeys returns the upper limit of the number of keys in a log with a number of records; nil
// if it is unknown. The caller holds Cleaner.mu.
func (s *logState) distinctKeys(view logView, records int64) *int64 {
	g := s.garbage
	if !g.known || g.truncations != view.Truncations || g.logStart != view.LogStart || s.running() {
		return nil
	}
	return new(max(0, records-g.records))
}

// truncationsUnknown is the value of logState.truncations before the pass has read the state of its
// log.
const truncationsUnknown = -1

// running reports whether a pass runs. This includes a pass that was canceled and has not ended
// yet. The caller holds Cleaner.mu.
func (s *logState) running() bool { return s.cancel != nil }

// stateLocked returns the state of a log, and creates it if necessary. It returns nil while the
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

// newState returns the state of a log for which no pass has been started since the state was
// deleted, or since the broker was started.
func (c *Cleaner) newState(log *compaction.Compaction, now time.Time) *logState {
	before := c.history.Totals(keyOf(log))
	return &logState{log: log, firstSeen: now, before: before, last: before.LastPass,
		lastSuccess: before.LastSuccess}
}

// quarantine delays the next pass over a log whose last pass failed, because each attempt may read
// the whole log. A restart of the broker ends it, because the restart may have removed the cause of
// the failure. The zero value delays nothing.
type quarantine struct {
	failures int // number of failed passes in a row
	until    time.Time
	settings *topicconfig.Settings // of the failed pass; other settings end the quarantine
}

// The backoff of a quarantine begins with a minute, doubles with each failure, and is at most an
// hour.
const (
	quarantineShortest = time.Minute
	quarantineLongest  = time.Hour
)

// after returns the quarantine that follows one more failure. In Kafka a failed log is not
// compacted again until the broker restarts (I7).
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
