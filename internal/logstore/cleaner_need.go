package logstore

import (
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Why the cleaner does what it does with a log: the closed set of the Topic condition Compacting
// (api/v1alpha1).
const (
	reasonUpToDate          = "UpToDate"
	reasonCleaning          = "Cleaning"
	reasonQueued            = "Queued"
	reasonBelowDirtyRatio   = "BelowDirtyRatio"
	reasonNothingToReclaim  = "NothingToReclaim"
	reasonActiveSegmentOnly = "ActiveSegmentOnly"
	reasonMinLagNotReached  = "MinLagNotReached"
	reasonOpenTransaction   = "BlockedByOpenTransaction"
	reasonQuarantined       = "Quarantined"
	reasonCleanerDisabled   = "CleanerDisabled"
)

// What makes a pass due, as the log line of a pass names it.
const (
	triggerMaxLag     = report.TriggerMaxLag
	triggerRequested  = report.TriggerRequested
	triggerTombstones = report.TriggerTombstones
	triggerDirtyRatio = report.TriggerDirtyRatio
)

// need is how much a log wants a pass. Urgencies of the triggers lie in bands: what somebody waits
// for and a broken promise about time (maxLag) before all, tombstones that are due beside a log
// that is wholly dirty, the rest by dirty ratio; waiting moves a log up through them.
type need struct {
	trigger string  // "": none is due
	urgency float64 // dirty ratio 0..1, and more for what was promised by a time
	// early tells that it is better to wait a moment: for the estimate that tells whether the pass
	// pays, or for what it was asked for.
	early bool
}

// wishes is what is known of a log besides its view.
type wishes struct {
	horizon time.Time // when the earliest tombstone may go, zero if there is none
	// since when the oldest garbage that the last pass left has been superseded; zero if it left
	// none
	oldest   time.Time
	notLag   time.Time // before this what the last pass has left is no reason for another
	request  request
	estimate estimate
}

// needOf tells whether a pass is due. The first trigger that holds is the one: whatever the reason
// of a pass, it also takes along what the others would have asked for.
func needOf(v cleanView, s topicconfig.Settings, w wishes, now time.Time) need {
	ratio := v.dirtyRatio()
	switch {
	case !w.request.at.IsZero():
		return need{trigger: triggerRequested, urgency: 3, early: !w.request.due(v, now)}
	case overdueBy(v, s, time.Time{}, now) > 0,
		overdueBy(v, s, w.oldest, now) > 0 && !now.Before(w.notLag):
		return need{trigger: triggerMaxLag, urgency: 2 + ratio} // I5: whatever the ratio
	// I4
	case v.DirtyBytes > 0 && ratio*100 > float64(s.MinDirtyPercent) && w.estimate.worth(v, s, now):
		return need{trigger: triggerDirtyRatio, urgency: ratio, early: w.estimate.stale(v)}
	case v.CleanBytes > 0 && !w.horizon.IsZero() && !now.Before(w.horizon):
		// A quiet log too gets rid of its tombstones: nothing dirty is needed (I18).
		return need{trigger: triggerTombstones, urgency: 1}
	}
	return need{}
}

// overdueBy is how far past maxLag the oldest dirty segment is, or what has been superseded since
// oldest, if that is known; 0 if neither is (I5, KIP-354). Blocked segments do not count: a pass
// could do nothing about them.
func overdueBy(v cleanView, s topicconfig.Settings, oldest, now time.Time) time.Duration {
	due := lagDue(v, s, oldest)
	if due.IsZero() {
		return 0
	}
	return max(0, now.Sub(due))
}

// lagDue is when the promise of maxLag falls due, zero if never: see overdueBy.
func lagDue(v cleanView, s topicconfig.Settings, oldest time.Time) time.Time {
	if s.MaxLag == topicconfig.Unlimited {
		return time.Time{}
	}
	if dirty := v.OldestDirty; v.DirtyBytes > 0 && !dirty.IsZero() &&
		(oldest.IsZero() || dirty.Before(oldest)) {
		oldest = dirty
	}
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(s.MaxLag)
}

// lagAgain is how soon after a pass garbage that it has left is a reason for another.
const lagAgain = time.Minute

// wishes returns what is known of the log besides its view. It needs Cleaner.mu.
func (s *cleanerState) wishes(seen look) wishes {
	w := wishes{horizon: s.tombstonesDue(seen), oldest: s.oldest, request: s.request,
		estimate: s.estimate}
	if !s.ended.IsZero() {
		w.notLag = s.ended.Add(lagAgain)
	}
	return w
}

// nextDue is when the log wants its next pass because of the time, zero if never. It needs
// Cleaner.mu.
func (s *cleanerState) nextDue(seen look, now time.Time) time.Time {
	if s.quarantine.holds(now, seen.config) {
		return s.quarantine.until
	}
	w, next := s.wishes(seen), time.Time{}
	for _, at := range []time.Time{lagDue(seen.view, seen.settings, w.oldest), w.horizon} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// tombstonesDue is when the log wants a pass for its tombstones, zero if never. Where nobody knows
// of their horizons (the checkpoint is lost, or the files came from elsewhere), a pass looks for
// them a whole retention after the log was first seen: by then all of them are due.
func (s *cleanerState) tombstonesDue(seen look) time.Time {
	switch seen.horizon {
	case horizonNone:
		return time.Time{}
	case horizonUnknown:
		return s.seen.Add(seen.settings.TombstoneRetention)
	}
	return time.UnixMilli(seen.horizon)
}

// waitingMinutes is how long a log must wait to overtake one that is fully dirty: so the dirtiest
// go first, and none waits for ever.
const waitingMinutes = 10

// priority orders the logs that are due, the highest first. It needs Cleaner.mu, and state.due set.
func (s *cleanerState) priority(n need, now time.Time) float64 {
	return n.urgency + now.Sub(s.due).Minutes()/waitingMinutes
}

// idleReason tells why no pass is due, though the log may hold what a pass could remove.
func idleReason(v cleanView, s topicconfig.Settings) string {
	switch {
	case v.DirtyBytes > 0 && v.dirtyRatio()*100 > float64(s.MinDirtyPercent):
		return reasonNothingToReclaim
	case v.DirtyBytes > 0:
		return reasonBelowDirtyRatio
	case v.Blocked[blockedMinLag] > 0:
		return reasonMinLagNotReached
	case v.Blocked[blockedTransaction] > 0:
		return reasonOpenTransaction
	case v.Blocked[blockedActive]+v.Blocked[blockedUnreplicated] > 0:
		return reasonActiveSegmentOnly
	}
	return reasonUpToDate
}
