package cleaner

import (
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Triggers: the reasons why a pass is due, as in its log line.
const (
	triggerMaxLag     = report.TriggerMaxLag
	triggerRequested  = report.TriggerRequested
	triggerTombstones = report.TriggerTombstones
	triggerDirtyRatio = report.TriggerDirtyRatio
)

// passDue is the reason why a pass over a log is due, and the urgency of the pass. The triggers
// have separate ranges of urgency: requests first, then logs that are past maxLag, then due
// tombstones, which are as urgent as a log that is wholly dirty, then the rest by dirty ratio.
// Waiting raises the priority through these ranges.
type passDue struct {
	trigger string  // "": no pass is due
	urgency float64 // the dirty ratio 0..1; higher for the other triggers
	// early is set if the pass should wait for a short time: for the estimate that decides whether
	// it pays, or for the records that it was requested for.
	early bool
}

// triggerInputs are the facts besides a log's sections that decide whether a pass is due.
type triggerInputs struct {
	horizon time.Time // when the first tombstone becomes due, zero if none does
	// oldest is the time at which the oldest garbage that the last pass left was superseded; zero
	// if the pass left no garbage.
	oldest time.Time
	// garbageAfter is the time before which garbage that the last pass left triggers no pass.
	garbageAfter time.Time
	request      request
	estimate     estimate
}

// earlyWaitMax bounds passDue.early.
const earlyWaitMax = 10 * time.Second

// decide returns the first trigger that applies. The pass also does what the other triggers
// require.
func decide(s logstore.Sections, settings *topicconfig.Settings, in triggerInputs,
	now time.Time) passDue {
	ratio := s.DirtyRatio()
	switch {
	case !in.request.at.IsZero():
		return passDue{trigger: triggerRequested, urgency: 3, early: !in.request.ready(s, now)}
	case overdueBy(s, settings, time.Time{}, now) > 0,
		overdueBy(s, settings, in.oldest, now) > 0 && !now.Before(in.garbageAfter):
		return passDue{trigger: triggerMaxLag, urgency: 2 + ratio} // I5: whatever the ratio
	// I4
	case s.DirtyBytes > 0 && ratio*100 > float64(settings.MinDirtyPercent) &&
		in.estimate.worthPass(s, settings, now):
		return passDue{trigger: triggerDirtyRatio, urgency: ratio, early: in.estimate.stale(s)}
	case s.CleanBytes > 0 && !in.horizon.IsZero() && !now.Before(in.horizon):
		// Tombstones of a log that is no longer written to are removed too (I18).
		return passDue{trigger: triggerTombstones, urgency: 1}
	}
	return passDue{}
}

// overdueBy returns the time by which the oldest dirty segment exceeds maxLag, or garbage that was
// superseded at oldest, if oldest is known. It returns 0 if neither exceeds maxLag (I5, KIP-354).
// Blocked segments are ignored: a pass cannot clean them.
func overdueBy(s logstore.Sections, settings *topicconfig.Settings,
	oldest, now time.Time) time.Duration {
	due := maxLagDue(s, settings, oldest)
	if due.IsZero() {
		return 0
	}
	return max(0, now.Sub(due))
}

// maxLagDue returns when maxLag requires a pass, zero if never: see overdueBy.
func maxLagDue(s logstore.Sections, settings *topicconfig.Settings, oldest time.Time) time.Time {
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

// garbageRetry is the least time after a pass before garbage that it left triggers another.
const garbageRetry = time.Minute

// passDue returns whether and why a pass is due, unless the log is quarantined. Scheduler and
// status both use it. It needs Cleaner.mu.
func (s *logState) passDue(view logView, now time.Time) passDue {
	if s.quarantine.active(now, view.settings) {
		return passDue{}
	}
	return decide(view.Sections, view.settings, s.inputs(view), now)
}

// inputs returns the trigger inputs of a log. The caller holds Cleaner.mu.
func (s *logState) inputs(view logView) triggerInputs {
	in := triggerInputs{horizon: s.tombstonesDue(view), oldest: s.oldest, request: s.request,
		estimate: s.estimate}
	if !s.ended.IsZero() {
		in.garbageAfter = s.ended.Add(garbageRetry)
	}
	return in
}

// nextDue returns when time alone makes the next pass due, zero if never. It needs Cleaner.mu.
func (s *logState) nextDue(view logView, now time.Time) time.Time {
	if s.quarantine.active(now, view.settings) {
		return s.quarantine.until
	}
	in, next := s.inputs(view), time.Time{}
	for _, at := range []time.Time{maxLagDue(view.Sections, view.settings, in.oldest), in.horizon} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// tombstonesDue returns when the log needs a pass for its tombstones, zero if never. If that is not
// known (the checkpoint was lost, or the files come from another cluster), a pass runs one
// retention after the log was first seen: all existing tombstones are due then.
func (s *logState) tombstonesDue(view logView) time.Time {
	switch view.TombstonesDue {
	case logstore.TombstonesNone:
		return time.Time{}
	case logstore.TombstonesUnknown:
		return s.firstSeen.Add(view.settings.TombstoneRetention)
	}
	return time.UnixMilli(view.TombstonesDue)
}

// waitingMinutes is the time that a log must wait to overtake a log that is fully dirty: the
// dirtiest logs go first, and no log starves.
const waitingMinutes = 10

// priority orders the logs whose pass is due, the highest first. It needs Cleaner.mu, and state.due
// set.
func (s *logState) priority(due passDue, now time.Time) float64 {
	return due.urgency + now.Sub(s.due).Minutes()/waitingMinutes
}
