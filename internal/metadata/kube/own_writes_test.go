package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// TestOwnWriteIsLatestUntilTheWatchDeliversIt: the result of an own write is the latest version
// until the watch delivers that write or a later version.
func TestOwnWriteIsLatestUntilTheWatchDeliversIt(t *testing.T) {
	at := func(uid, version string) *v1alpha1.Partition {
		return &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Name: "orders-0",
			UID: types.UID(uid), ResourceVersion: version}}
	}
	w := newOwnWrites()
	if p := at("a", "5"); w.latest(p) != p {
		t.Error("without an own write, latest must return the watched version")
	}
	ours := at("a", "6")
	w.mu.last["orders-0"] = ownWrite{base: "5", result: ours}
	if w.latest(at("a", "5")) != ours {
		t.Error("while the watch is behind, latest must return the own write")
	}
	w.prune([]*v1alpha1.Partition{at("a", "5")})
	if w.latest(at("a", "5")) != ours {
		t.Error("prune removed an own write that the watch has not delivered")
	}
	w.prune([]*v1alpha1.Partition{at("a", "7")})
	if p := at("a", "7"); w.latest(p) != p || len(w.mu.last) != 0 {
		t.Error("after the watch has delivered a later version, the own write is kept")
	}
}

// TestThrottlePausesOncePerSlowWrite: throttle pauses once after a slow write, even if several
// goroutines call it, and does not pause without a slow write.
func TestThrottlePausesOncePerSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOwnWrites()
		pause := func(took time.Duration) time.Duration {
			w.took.Store(int64(took))
			began := time.Now()
			w.throttle(t.Context())
			w.throttle(t.Context())
			return time.Since(began)
		}
		for took, want := range map[time.Duration]time.Duration{
			0: 0, slowWrite: 0, 30 * time.Millisecond: throttleFactor * 30 * time.Millisecond,
			time.Minute: maxThrottle,
		} {
			if got := pause(took); got != want {
				t.Errorf("after a write of %v: got a pause of %v, want %v", took, got, want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.took.Store(int64(time.Minute))
		began := time.Now()
		if w.throttle(ended); time.Since(began) > 0 {
			t.Error("throttle paused although its context has ended")
		}
	})
}

// TestChangeThatRemovesFencedMembersOnly: a change that only removes fenced members need not be
// written. A change that removes other members, or none, must be.
func TestChangeThatRemovesFencedMembersOnly(t *testing.T) {
	before := replicated() // broker 0 leads; broker 1 is in sync with broker epoch 1
	after := replicated()
	metadata.RecordISR(&after.Status, after.Status.ISR[:1])
	crashed := placement.BrokerState{Liveness: placement.Up, Epoch: 2, CleanEpoch: -1,
		Directory: "disk-1"}
	stopped := placement.BrokerState{Liveness: placement.Up, Epoch: 2, CleanEpoch: 1,
		Directory: "disk-1"}
	for name, c := range map[string]struct {
		now  placement.BrokerState
		want bool
	}{"restarted uncleanly": {crashed, true}, "restarted cleanly": {stopped, false},
		"down": {placement.BrokerState{}, false}} {
		if got := removesFencedOnly(before, after,
			map[int32]placement.BrokerState{1: c.now}); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	if removesFencedOnly(before, before, map[int32]placement.BrokerState{1: crashed}) {
		t.Error("removesFencedOnly is true for a change that removes no member")
	}
}
