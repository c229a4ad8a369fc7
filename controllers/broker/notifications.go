package broker

import (
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// The leader of a partition detects by itself that the broker of a follower has failed or has
// restarted, and updates the ISR at once, as its producers wait. If the operator also updated the
// ISR at once, both would write, and when a broker of a thousand partitions fails, the partitions
// without a leader would wait for these writes. So the operator waits until leaders have had the
// time to do it. After a restart it waits longer: the leader replaces the earlier broker epoch when
// it adds the follower to the ISR again.
const (
	notifyFollowersAfterFailure = 5 * time.Second
	notifyFollowersAfterReturn  = 30 * time.Second
)

// notification is the state of a broker that its partitions have last been notified of.
type notification struct {
	state placement.BrokerState
	// pendingSince is the time from which the notification of the partitions that the broker does
	// not lead has been pending; zero if they have been notified.
	pendingSince time.Time
}

// followersDue returns the time after which the partitions that the broker does not lead are to be
// notified; pending is false if they have been notified. A broker that fails and returns repeatedly
// does not postpone it.
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
