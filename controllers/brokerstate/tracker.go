package brokerstate

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/internal/placement"
)

// ReadTimeout is the timeout of a read from the API server itself. A timeout does not prove that a
// broker has failed: a slow API server delays elections, but causes none.
const ReadTimeout = 2 * time.Second

// Tracker observes the Leases and pods of all brokers. It is safe for concurrent use. While mu is
// held, no other lock is acquired and no I/O is done. Therefore several goroutines can read from
// the API server at the same time.
//
// An interrupted watch cannot be distinguished from brokers that have stopped renewing their
// Leases. So the tracker reads an expired Lease from the API server itself before it reports the
// broker as down. While the API server is unavailable, no Lease expires.
type Tracker struct {
	cached, live client.Reader // the watch's cache, and uncached reads of the API server
	mu           struct {
		sync.Mutex
		observations map[types.NamespacedName]observation // by Lease
		// podReads are the last reads of pods from the API server itself, by Lease.
		podReads map[types.NamespacedName]podRead
	}
}

// NewTracker returns a tracker that reads from a cache and from the API server itself.
func NewTracker(cached, live client.Reader) *Tracker {
	t := &Tracker{cached: cached, live: live}
	t.mu.observations = map[types.NamespacedName]observation{}
	t.mu.podReads = map[types.NamespacedName]podRead{}
	return t
}

// State returns the state of the broker that holds a Lease. Before the time until (by the
// operator's clock), only a new event can change the state. A broker is down if its Lease has
// expired, or if its pod or a connection has proved that its process has exited. State fails only
// if a read from the cache fails.
func (t *Tracker) State(ctx context.Context, key types.NamespacedName) (state placement.BrokerState,
	until time.Time, err error) {
	current, err := GetLease(ctx, t.cached, key)
	if err != nil {
		return placement.BrokerState{}, time.Time{}, err
	}
	seen := t.update(key, current,
		func(before observation, now time.Time) observation { return before.observe(current, now) })
	// The first caller after the expiry reads the Lease from the API server. A timer would also read
	// Leases that no caller needs.
	if current != nil && seen.needsConfirmation(time.Now()) {
		seen = t.confirm(ctx, key, current)
	}
	state = seen.state(time.Now())
	if state.Liveness == placement.Down {
		return state, seen.ValidUntil, nil
	}
	evidence, err := t.podEvidence(ctx, key, seen)
	if err != nil {
		return placement.BrokerState{}, time.Time{}, err
	}
	switch evidence {
	case podExited:
		state.Liveness = placement.Down
	case podTerminating:
		state.Leaving = true
	}
	return state, seen.ValidUntil, nil
}

// confirm reads an expired Lease from the API server itself and updates the observation.
func (t *Tracker) confirm(ctx context.Context, key types.NamespacedName,
	current *coordinationv1.Lease) observation {
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	live, err := GetLease(ctx, t.live, key)
	if err == nil && live == nil {
		current = nil // the Lease was deleted; the watch has not delivered the deletion yet
	}
	return t.update(key, current,
		func(before observation, now time.Time) observation { return before.confirm(live, now) })
}

// ProcessExited marks the process of a broker epoch as exited.
func (t *Tracker) ProcessExited(key types.NamespacedName, epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seen, ok := t.mu.observations[key]; ok && seen.broker.Epoch == epoch && !seen.exitRefuted {
		seen.exited = true
		t.mu.observations[key] = seen
	}
}

// update changes the observation of a Lease, or deletes it if the Lease current is nil. The
// function change receives the latest observation, which can be newer than the caller's: another
// goroutine may have observed a renewal while the caller was reading from the API server. update
// holds mu while it calls change, so change must not block.
func (t *Tracker) update(key types.NamespacedName, current *coordinationv1.Lease,
	change func(observation, time.Time) observation) observation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if current == nil {
		delete(t.mu.observations, key)
		delete(t.mu.podReads, key)
		return observation{}
	}
	next := change(t.mu.observations[key], time.Now())
	t.mu.observations[key] = next
	return next
}

// GetLease reads a Lease. It returns nil if the Lease does not exist.
func GetLease(ctx context.Context, reader client.Reader,
	key types.NamespacedName) (*coordinationv1.Lease, error) {
	found := &coordinationv1.Lease{}
	if err := reader.Get(ctx, key, found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get lease %s: %w", key, err)
	}
	return found, nil
}
