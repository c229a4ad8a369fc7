package controllers

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

// confirmTimeout bounds the question to the API server whether a broker is gone. No answer in time
// is taken as no word against the broker (see confirm), so a slow API server delays elections and
// starts none.
const confirmTimeout = 2 * time.Second

// brokers remembers when each broker's Lease was last seen to be renewed. It is the shell of
// observe.
//
// A watch that is cut off looks like brokers that renew no more. So before a broker is gone, its
// Lease is read from the API server itself; while that cannot be reached, nobody's time runs out.
type brokers struct {
	cached, live client.Reader // from the watch, and from the API server itself
	mu           struct {
		sync.Mutex
		seen map[types.NamespacedName]sighting  // by Lease
		pods map[types.NamespacedName]podMemory // by Lease; of pods that the watch does not know
	}
}

func newBrokers(cached, live client.Reader) *brokers {
	b := &brokers{cached: cached, live: live}
	b.mu.seen, b.mu.pods = map[types.NamespacedName]sighting{}, map[types.NamespacedName]podMemory{}
	return b
}

// look returns what is to be thought of the broker of a Lease, and until when (by our clock), if
// nothing is seen until then. A Lease that runs still does not help a broker whose pod says that it
// is gone; nor does a pod that runs help one whose Lease has run out. It fails only if the cache
// does. Any goroutine may call it; the lock is not held while the API server is asked, so several
// may ask at once.
func (b *brokers) look(ctx context.Context, key types.NamespacedName) (placement.BrokerState,
	time.Time, error) {
	lease, err := getLease(ctx, b.cached, key)
	if err != nil {
		return placement.BrokerState{}, time.Time{}, err
	}
	seen := b.update(key, lease,
		func(before sighting, now time.Time) sighting { return observe(before, lease, now) })
	// Asked here, by whoever looks first after the end, not by a timer: nobody needs to know before
	// somebody decides by it.
	if lease != nil && seen.unsure(time.Now()) {
		asking, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		live, err := getLease(asking, b.live, key)
		// The Lease was deleted, and the watch has not brought that. An error is no such proof.
		if err == nil && live == nil {
			lease = nil
		}
		seen = b.update(key, lease,
			func(before sighting, now time.Time) sighting { return confirm(before, live, now) })
	}
	state := seen.state(time.Now())
	if state.Liveness == placement.Down {
		return state, seen.until, nil
	}
	word, err := b.askPod(ctx, key, seen)
	if err != nil {
		return placement.BrokerState{}, time.Time{}, err
	}
	switch word {
	case podEnded:
		state.Liveness = placement.Down
	case podLeaving:
		state.Leaving = true
	}
	return state, seen.until, nil
}

// end takes in that the process of an incarnation has ended, as a connection tells.
func (b *brokers) end(key types.NamespacedName, epoch int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seen, ok := b.mu.seen[key]; ok && seen.broker.Epoch == epoch && !seen.misjudged {
		seen.ended = true
		b.mu.seen[key] = seen
	}
}

// update changes what is remembered of a Lease; a Lease that is not there is forgotten. change gets
// what is remembered now, not what the caller saw before it asked the API server: another goroutine
// may have seen a renewal meanwhile. It must not block, as it runs under the lock.
func (b *brokers) update(key types.NamespacedName, lease *coordinationv1.Lease,
	change func(sighting, time.Time) sighting) sighting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lease == nil {
		delete(b.mu.seen, key)
		delete(b.mu.pods, key)
		return sighting{}
	}
	seen := change(b.mu.seen[key], time.Now())
	b.mu.seen[key] = seen
	return seen
}

// getLease reads a Lease; nil if there is none.
func getLease(ctx context.Context, reader client.Reader,
	key types.NamespacedName) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, key, lease); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get lease %s: %w", key, err)
	}
	return lease, nil
}
