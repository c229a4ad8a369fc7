package broker

import (
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// The leader of a partition itself detects that the broker of a follower has failed or restarted.
// It updates the ISR at once, because producers wait for it. If the operator also updated the ISR
// at once, both would write the same change. When a broker of a thousand partitions fails,
// partitions without a leader would have to wait for these writes. Therefore the operator first
// gives leaders time to update the ISR. After a restart it waits longer, because the leader
// replaces the earlier broker epoch in the ISR only when it adds the follower to the ISR again.
const (
	notifyFollowersAfterFailure = 5 * time.Second
	notifyFollowersAfterReturn  = 30 * time.Second
)

// notification is the state of a broker of which the broker's partitions were last notified.
type notification struct {
	state placement.BrokerState
	// pendingSince is the time since which partitions that the broker does not lead wait for a
	// notification; zero if all of them have been notified.
	pendingSince time.Time
}

// followersDue returns the time that remains until the partitions that the broker does not lead are
// to be notified. The result pending is false if all of these partitions have been notified. The
// delay starts at pendingSince, so repeated failures and returns of the broker do not postpone the
// notification.
func (n notification) followersDue(now time.Time) (in time.Duration, pending bool) {
	if n.pendingSince.IsZero() {
		return 0, false
	}
	delay := notifyFollowersAfterFailure
	if n.state.Liveness == placement.Up {
		delay = notifyFollowersAfterReturn
	}
	return max(n.pendingSince.Add(delay).Sub(now), 0), true
}
