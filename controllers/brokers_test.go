package controllers

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

// reading is a way to the API server: what it says of a Lease, or why it cannot be reached.
type reading struct {
	client.Reader
	lease *coordinationv1.Lease
	err   error
}

func (r *reading) Get(_ context.Context, _ client.ObjectKey, into client.Object,
	_ ...client.GetOption) error {
	if r.err == nil {
		*into.(*coordinationv1.Lease) = *r.lease
	}
	return r.err
}

func TestBrokersOutliveAnOutageOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := leaseAt("a", time.Now(), 3)
		cached, live := &reading{lease: lease}, &reading{lease: lease}
		brokers := newBrokers(cached, live)
		look := func(want placement.Liveness) (until time.Time) {
			t.Helper()
			state, until, err := brokers.look(t.Context(),
				types.NamespacedName{Name: "main-broker-0"})
			if err != nil || state.Liveness != want {
				t.Fatalf("life %d, error %v, want life %d", state.Liveness, err, want)
			}
			return until
		}
		until := look(placement.Up)
		live.err = errors.New("connection refused")
		for range 10 { // a minute
			time.Sleep(time.Until(until))
			until = look(placement.Up)
		}
		live.err = nil // it is back, and nobody has renewed
		time.Sleep(time.Until(until))
		look(placement.Down)
		cached.lease = leaseAt("a", time.Now(), 3)
		look(placement.Up)
	})
}
