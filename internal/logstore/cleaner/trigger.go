package cleaner

import (
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Triggers are the reasons why a log needs a pass. The log message of the pass contains the
// trigger.
const (
	triggerMaxLag     = report.TriggerMaxLag
	triggerRequested  = report.TriggerRequested
	triggerTombstones = report.TriggerTombstones
	triggerDirtyRatio = report.TriggerDirtyRatio
	triggerPressure   = report.TriggerPressure
)

// passDue is the reason why a log needs a pass now, and the urgency of the pass. Each trigger has
// its own range of urgency. The ranges in descending order: garbage while the volume is short of
// space; a request; a log that exceeds maxLag; removable tombstones, which are as urgent as a dirty
// ratio of 1. For other logs the urgency is the dirty ratio. A log's priority increases while the
// log waits.
type passDue struct {
	trigger string  // "" if the log needs no pass now
	urgency float64 // the dirty ratio, 0 to 1; at least 1 for the other triggers
	// early is set if the pass should wait for a short time: either for the estimate that decides
	// whether the pass is worth its cost, or for the requested records to become cleanable.
	early bool
}

// triggerInputs are the values that, together with a log's sections, decide whether the log needs a
// pass.
type triggerInputs struct {
	horizon time.Time // time of the next pass that can remove tombstones; zero if there is none
	// oldest is the time at which the oldest garbage that the last pass left was superseded; zero
	// if the pass left no garbage.
	oldest time.Time
	// garbageAfter is the time before which the garbage left by the last pass triggers no other
	// pass.
	garbageAfter time.Time
	request      request
	estimate     estimate
	pressure     Pressure
	// pressureAfter is the time before which storage pressure triggers no other pass.
	pressureAfter time.Time
}

// earlyWaitMax is the maximum time that a pass with passDue.early waits.
const earlyWaitMax = 10 * time.Second

// decide returns the first trigger that applies, or a passDue without a trigger. The pass also does
// what the other triggers require.
func decide(s compaction.Sections, settings *topicconfig.Settings, in triggerInputs,
	now time.Time) passDue {
	ratio, garbage := s.DirtyRatio(), in.underPressure(s, now)
	urgency := pressureUrgency + float64(garbage)/(1<<20)
	switch {
	case !in.request.moment.IsZero():
		return passDue{trigger: triggerRequested, urgency: urgency, early: !in.request.ready(s, now)}
	case garbage > 0:
		return passDue{trigger: triggerPressure, urgency: urgency, early: in.estimate.stale(s)}
	case overdueBy(s, settings, time.Time{}, now) > 0,
		overdueBy(s, settings, in.oldest, now) > 0 && !now.Before(in.garbageAfter):
		return passDue{trigger: triggerMaxLag, urgency: 2 + ratio} // I5; whatever the dirty ratio is
	// I4: the dirty ratio is above the minimum, and the pass is worth its cost.
	case s.DirtyBytes > 0 && ratio*100 > settings.MinDirtyPercent &&
		in.estimate.worthPass(s, settings, now):
		return passDue{trigger: triggerDirtyRatio, urgency: ratio, early: in.estimate.stale(s)}
	case (s.CleanBytes > 0 || s.Deleted) && !in.horizon.IsZero() && !now.Before(in.horizon):
		// Such a pass also removes tombstones of a log to which nothing is appended any longer
		// (I18), and records that DeleteRecords has deleted.
		return passDue{trigger: triggerTombstones, urgency: 1}
	}
	return passDue{}
}

// overdueBy returns by how much the age of the oldest dirty segment, or of the garbage that was
// superseded at oldest, exceeds maxLag. If oldest is zero, there is no such garbage. It returns 0
// if neither age exceeds maxLag (I5, KIP-354). It ignores blocked segments, because a pass cannot
// clean them.
func overdueBy(s compaction.Sections, settings *topicconfig.Settings,
	oldest, now time.Time) time.Duration {
	due := maxLagDue(s, settings, oldest)
	if due.IsZero() {
		return 0
	}
	return max(0, now.Sub(due))
}

// maxLagDue returns the time at which maxLag requires a pass, or zero if maxLag never requires one
// (see overdueBy).
func maxLagDue(s compaction.Sections, settings *topicconfig.Settings, oldest time.Time) time.Time {
	if settings.MaxLag == topicconfig.Unlimited {
		return time.Time{}
	}
	if dirty := s.OldestDirty; s.DirtyBytes > 0 && !dirty.IsZero() &&
		(oldest.IsZero() || dirty.Before(oldest)) {
		oldest = dirty
	}
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(settings.MaxLag)
}

// garbageRetry is the minimum time between a pass and another pass that is triggered by the garbage
// left by the first one.
const garbageRetry = time.Minute

// passDue returns whether and why a log needs a pass now. A quarantined log needs no pass. Both the
// scheduler and Status use this function. The caller holds Cleaner.mu.
func (s *logState) passDue(view logView, now time.Time) passDue {
	if s.quarantine.active(now, view.settings) {
		return passDue{}
	}
	return decide(view.Sections, view.settings, s.inputs(view), now)
}

// inputs returns decide's inputs for a log. The caller holds Cleaner.mu.
func (s *logState) inputs(view logView) triggerInputs {
	in := triggerInputs{horizon: s.tombstonesDue(view), oldest: s.oldest, request: s.request,
		estimate: s.estimate, pressure: s.pressure}
	if !s.ended.IsZero() {
		in.garbageAfter = s.ended.Add(garbageRetry)
		in.pressureAfter = s.ended.Add(pressureRetry)
	}
	return in
}

// nextDue returns the time at which the log will next need a pass even if nothing is appended, or
// zero if there is no such time. The caller holds Cleaner.mu.
func (s *logState) nextDue(view logView, now time.Time) time.Time {
	if s.quarantine.active(now, view.settings) {
		return s.quarantine.until
	}
	in, next := s.inputs(view), time.Time{}
	for _, moment := range []time.Time{maxLagDue(view.Sections, view.settings, in.oldest),
		in.horizon} {
		if !moment.IsZero() && (next.IsZero() || moment.Before(next)) {
			next = moment
		}
	}
	return next
}

// tombstonesDue returns the time of the next pass that can remove tombstones of the log, or zero if
// there is no such pass. A tombstone that was the last record of the log is removed within one
// retention after later records are appended, so such tombstones cause at most one pass per
// retention.
//
// The time is unknown if the checkpoint was lost or the files come from another cluster. In this
// case, a pass runs one tombstone retention after the creation of the log's state, when the
// retention of all existing tombstones has passed.
func (s *logState) tombstonesDue(view logView) time.Time {
	switch view.TombstonesDue {
	case progress.TombstonesNone:
		return time.Time{}
	case progress.TombstonesAfterAppend:
		if view.OldestDirty.IsZero() {
			return time.Time{}
		}
		return view.OldestDirty.Add(view.settings.TombstoneRetention)
	case progress.TombstonesUnknown:
		return s.firstSeen.Add(view.settings.TombstoneRetention)
	}
	return time.UnixMilli(view.TombstonesDue)
}

// waitingMinutes is the waiting time after which a log with a dirty ratio of almost 0 has the same
// priority as a log that has just become due with a dirty ratio of 1. So the dirtiest logs are
// compacted first, but no log waits forever.
const waitingMinutes = 10

// priority returns the priority of a log that needs a pass; the log with the highest priority is
// served first. The caller holds Cleaner.mu, and has set s.due.
func (s *logState) priority(due passDue, now time.Time) float64 {
	return due.urgency + now.Sub(s.due).Minutes()/waitingMinutes
}
