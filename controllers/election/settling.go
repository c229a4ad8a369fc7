package election

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// These are the times that the operator gives leaders to update the ISR after the broker of a
// follower has failed or restarted. A leader detects this itself, and updates the ISR at once
// because producers wait for it. After a restart, the operator waits longer, because the leader
// replaces the earlier broker epoch in the ISR only when it adds the follower to the ISR again.
const (
	leaveISRAfterFailure = 5 * time.Second
	leaveISRAfterReturn  = 30 * time.Second
)

// change is the latest change of a broker's state.
type change struct {
	state placement.BrokerState
	// pendingSince is the time since which the operator leaves ISR changes to the leaders; zero if it
	// does not.
	pendingSince time.Time
}

// remaining returns the time for which the operator still leaves ISR changes to the leaders. The
// time starts at pendingSince, so repeated failures and returns of the broker do not postpone its
// end.
func (c change) remaining(now time.Time) time.Duration {
	if c.pendingSince.IsZero() {
		return 0
	}
	delay := leaveISRAfterFailure
	if c.state.Liveness == placement.Up {
		delay = leaveISRAfterReturn
	}
	return max(c.pendingSince.Add(delay).Sub(now), 0)
}

// settling stores the latest state change of each broker, by Lease. It is safe for concurrent use.
// After a restart of the operator, the first observed states count as settled.
type settling struct {
	mu      sync.Mutex
	brokers map[types.NamespacedName]change
}

// observe processes a broker's state at the time now. It returns the time for which ISR changes
// that concern this broker are left to the leaders, or 0 if they are not.
func (s *settling) observe(lease types.NamespacedName, state placement.BrokerState,
	now time.Time) time.Duration {
	state.AddressStaleFor = 0 // changes with time, but causes no election
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.brokers == nil {
		s.brokers = map[types.NamespacedName]change{}
	}
	last, known := s.brokers[lease]
	switch {
	case !known:
		last = change{state: state}
	case last.state != state:
		last.state = state
		if last.pendingSince.IsZero() {
			last.pendingSince = now
		}
	}
	left := last.remaining(now)
	if left == 0 {
		last.pendingSince = time.Time{}
	}
	s.brokers[lease] = last
	return left
}

// forget removes a LogCluster's brokers.
func (s *settling) forget(namespace, cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.brokers, func(lease types.NamespacedName, _ change) bool {
		name, _, _ := v1alpha1.ParseBrokerLeaseName(lease.Name)
		return lease.Namespace == namespace && name == cluster
	})
}
