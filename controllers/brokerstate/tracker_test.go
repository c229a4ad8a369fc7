package brokerstate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/internal/placement"
)

// leaseReader is a client.Reader that returns one Lease or an error.
type leaseReader struct {
	client.Reader
	lease *coordinationv1.Lease
	err   error
}

func (r *leaseReader) Get(_ context.Context, _ client.ObjectKey, into client.Object,
	_ ...client.GetOption) error {
	if r.err == nil {
		*into.(*coordinationv1.Lease) = *r.lease
	}
	return r.err
}

func TestNoLeaseExpiresWhileTheAPIServerIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := leaseAt("a", time.Now(), 3)
		cached, live := &leaseReader{lease: lease}, &leaseReader{lease: lease}
		tracker := NewTracker(cached, live)
		expect := func(want placement.Liveness) (until time.Time) {
			t.Helper()
			state, until, err := tracker.State(t.Context(),
				types.NamespacedName{Name: "main-broker-0"})
			if err != nil || state.Liveness != want {
				t.Fatalf("got liveness %d, error %v, want liveness %d", state.Liveness, err, want)
			}
			return until
		}
		until := expect(placement.Up)
		live.err = errors.New("connection refused")
		for range 10 { // ten Lease durations, one minute in total
			time.Sleep(time.Until(until))
			until = expect(placement.Up)
		}
		live.err = nil // available again, without a renewal
		time.Sleep(time.Until(until))
		expect(placement.Down)
		cached.lease = leaseAt("a", time.Now(), 3)
		expect(placement.Up)
	})
}

var brokerZero = types.NamespacedName{Namespace: "logs", Name: "demo-broker-0"}

// TestRenewalRefutesTheExitOfAProcess checks that ProcessExited marks a broker as down until the
// next renewal of its Lease. After this renewal, further calls of ProcessExited with the same
// broker epoch have no effect.
func TestRenewalRefutesTheExitOfAProcess(t *testing.T) {
	tracker := NewTracker(nil, nil)
	renew := func(after time.Duration, epoch int32) {
		current := leaseAt("a", noon.Add(after), epoch)
		tracker.update(brokerZero, current, func(before observation, _ time.Time) observation {
			return before.observe(current, noon.Add(after))
		})
	}
	expect := func(want placement.Liveness, when string) {
		t.Helper()
		state := tracker.mu.observations[brokerZero].state(noon.Add(time.Second))
		if state.Liveness != want {
			t.Errorf("%s: got liveness %d, want %d", when, state.Liveness, want)
		}
	}
	renew(0, 3)
	tracker.ProcessExited(brokerZero, 2)
	expect(placement.Up, "an earlier epoch exited")
	tracker.ProcessExited(brokerZero, 3)
	expect(placement.Down, "the epoch exited")
	renew(time.Second, 3)
	tracker.ProcessExited(brokerZero, 3)
	expect(placement.Up, "a renewal refuted the exit")
	renew(2*time.Second, 4)
	tracker.ProcessExited(brokerZero, 4)
	expect(placement.Down, "the next epoch exited")
}
