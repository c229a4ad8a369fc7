package logstore

import (
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// Why the cleaner does what it does with a log: the closed set of the Topic condition Compacting (api/v1alpha1).
const (
	reasonUpToDate          = "UpToDate"
	reasonCleaning          = "Cleaning"
	reasonQueued            = "Queued"
	reasonBelowDirtyRatio   = "BelowDirtyRatio"
	reasonActiveSegmentOnly = "ActiveSegmentOnly"
	reasonMinLagNotReached  = "MinLagNotReached"
	reasonOpenTransaction   = "BlockedByOpenTransaction"
	reasonQuarantined       = "Quarantined"
	reasonCleanerDisabled   = "CleanerDisabled"
)

// What makes a pass due, as the log line of a pass names it.
const (
	triggerMaxLag     = "max_lag"
	triggerTombstones = "tombstones"
	triggerDirtyRatio = "dirty_ratio"
)

// need is how much a log wants a pass. Urgencies of the triggers lie in bands: a broken promise about time (maxLag) before all,
// tombstones that are due beside a log that is wholly dirty, the rest by dirty ratio; waiting moves a log up through them.
type need struct {
	trigger string  // "": none is due
	urgency float64 // dirty ratio 0..1, and more for what was promised by a time
}

// needOf tells whether a pass is due. horizon is when the earliest tombstone may go, zero if there is none. The first
// trigger that holds is the one: whatever the reason of a pass, it also takes along what the others would have asked for.
func needOf(v cleanView, s topicconfig.Settings, horizon, now time.Time) need {
	ratio := v.dirtyRatio()
	overdue := overdueBy(v, s, now)
	switch {
	case overdue > 0: // I5: whatever the ratio
		return need{triggerMaxLag, 2 + ratio}
	case v.DirtyBytes > 0 && ratio*100 > float64(s.MinDirtyPercent): // I4
		return need{triggerDirtyRatio, ratio}
	case v.CleanBytes > 0 && !horizon.IsZero() && !now.Before(horizon):
		// A quiet log too gets rid of its tombstones: nothing dirty is needed (I18).
		return need{triggerTombstones, 1}
	}
	return need{}
}

// overdueBy is how far past maxLag the oldest dirty segment is; 0 if it is not (I5, KIP-354). Blocked segments do not count:
// a pass could do nothing about them.
func overdueBy(v cleanView, s topicconfig.Settings, now time.Time) time.Duration {
	if s.MaxLag == topicconfig.Unlimited || v.DirtyBytes == 0 || v.OldestDirty.IsZero() {
		return 0
	}
	return max(0, now.Sub(v.OldestDirty)-s.MaxLag)
}

// tombstonesDue is when the log wants a pass for its tombstones, zero if never. Where nobody knows of their horizons (the
// checkpoint is lost, or the files came from elsewhere), a pass looks for them a whole retention after the log was first seen:
// by then all of them are due.
func (s *cleanerState) tombstonesDue(seen look) time.Time {
	switch seen.horizon {
	case horizonNone:
		return time.Time{}
	case horizonUnknown:
		return s.seen.Add(seen.settings.TombstoneRetention)
	}
	return time.UnixMilli(seen.horizon)
}

// waitingMinutes is how long a log must wait to overtake one that is fully dirty: so the dirtiest go first, and none waits for
// ever.
const waitingMinutes = 10

// priority orders the logs that are due, the highest first. It needs Cleaner.mu, and state.due set.
func (s *cleanerState) priority(n need, now time.Time) float64 {
	return n.urgency + now.Sub(s.due).Minutes()/waitingMinutes
}

// idleReason tells why no pass is due, though the log may hold what a pass could remove.
func idleReason(v cleanView) string {
	switch {
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
