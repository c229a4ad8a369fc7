package broker

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// TestFollowersAreNotifiedAfterADelay: partitions that a broker does not lead are notified after a
// delay. The delay is longer after the broker has returned, and repeated failures do not restart
// it.
func TestFollowersAreNotifiedAfterADelay(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	down := placement.BrokerState{Liveness: placement.Down}
	up := placement.BrokerState{Liveness: placement.Up}
	for name, test := range map[string]struct {
		notification notification
		after        time.Duration
		in           time.Duration
		pending      bool
	}{
		"notified": {notification{state: up}, 0, 0, false},
		"down": {notification{down, start}, time.Second,
			notifyFollowersAfterFailure - time.Second, true},
		"down for the delay": {notification{down, start}, notifyFollowersAfterFailure, 0, true},
		"returned": {notification{up, start}, notifyFollowersAfterFailure,
			notifyFollowersAfterReturn - notifyFollowersAfterFailure, true},
		"returned for the delay": {notification{up, start},
			notifyFollowersAfterReturn + time.Hour, 0, true},
		"returned, down again": {notification{down, start},
			notifyFollowersAfterReturn - time.Second, 0, true},
	} {
		in, pending := test.notification.followersDue(start.Add(test.after))
		if in != test.in || pending != test.pending {
			t.Errorf("%s: got in %v, pending %t; want %v, %t", name, in, pending, test.in, test.pending)
		}
	}
}
