package election

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/internal/placement"
)

// TestISRIsLeftToLeadersForAWhile checks that ISR changes are left to the leaders for a delay after
// a broker's state has changed. The delay is longer after the broker has returned, and repeated
// failures do not restart it.
func TestISRIsLeftToLeadersForAWhile(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lease := types.NamespacedName{Namespace: "logs", Name: "main-broker-1"}
	down := placement.BrokerState{Liveness: placement.Down}
	up := func(epoch int64) placement.BrokerState {
		return placement.BrokerState{Liveness: placement.Up, Epoch: epoch}
	}
	stale := up(1)
	stale.AddressStaleFor = time.Second
	var s settling
	for _, step := range []struct {
		name  string
		after time.Duration
		state placement.BrokerState
		left  time.Duration
	}{
		{"first observation", 0, up(1), 0},
		{"only its address has become stale", time.Minute, stale, 0},
		{"failed", 2 * time.Minute, down, leaveISRAfterFailure},
		{"still down", 2*time.Minute + time.Second, down, leaveISRAfterFailure - time.Second},
		{"returned", 2*time.Minute + 4*time.Second, up(2), leaveISRAfterReturn - 4*time.Second},
		{"failed again", 2*time.Minute + 6*time.Second, down, 0},
		{"returned after the end", 2*time.Minute + 7*time.Second, up(3), leaveISRAfterReturn},
		{"settled", 2*time.Minute + 37*time.Second, up(3), 0},
		{"and remains so", 2*time.Minute + 38*time.Second, up(3), 0},
		{"another broker epoch", time.Hour, up(4), leaveISRAfterReturn},
	} {
		if left := s.observe(lease, step.state, start.Add(step.after)); left != step.left {
			t.Errorf("%s: got %v, want %v", step.name, left, step.left)
		}
	}
}
