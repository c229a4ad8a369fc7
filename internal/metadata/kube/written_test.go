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

// Our own write counts until the watch has brought it, or something later; not that of a Partition
// of before under the name.
func TestOwnWritesAreKnownBeforeTheWatchTells(t *testing.T) {
	at := func(uid, version string) *v1alpha1.Partition {
		return &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Name: "orders-0",
			UID: types.UID(uid), ResourceVersion: version}}
	}
	w := newWritten()
	if p := at("a", "5"); w.newest(p) != p {
		t.Error("nothing was written")
	}
	ours := at("a", "6")
	w.mu.last["orders-0"] = write{over: "5", result: ours}
	if w.newest(at("a", "5")) != ours {
		t.Error("the watch is behind our write")
	}
	w.settle([]*v1alpha1.Partition{at("a", "5")})
	if w.newest(at("a", "5")) != ours {
		t.Error("the watch is behind our write still")
	}
	w.settle([]*v1alpha1.Partition{at("a", "7")})
	if p := at("a", "7"); w.newest(p) != p || len(w.mu.last) != 0 {
		t.Error("the watch has passed our write")
	}
}

// TestWhoHasMuchToWriteGivesWay: after each slow write once, however many goroutines write, and not
// where nothing was written.
func TestWhoHasMuchToWriteGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWritten()
		waits := func(took time.Duration) time.Duration {
			w.took.Store(int64(took))
			began := time.Now()
			w.giveWay(t.Context())
			w.giveWay(t.Context())
			return time.Since(began)
		}
		for took, want := range map[time.Duration]time.Duration{
			0: 0, quickWrite: 0, 30 * time.Millisecond: waitShare * 30 * time.Millisecond,
			time.Minute: giveWayMax,
		} {
			if waited := waits(took); waited != want {
				t.Errorf("after a write of %v it waits for %v, want %v", took, waited, want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.took.Store(int64(time.Minute))
		began := time.Now()
		if w.giveWay(ended); time.Since(began) > 0 {
			t.Error("it waits although it is to end")
		}
	})
}

// What only drops members that have ended need not be written; what drops others must, and what
// takes one in.
func TestWhoHasEndedIsNotWrittenOff(t *testing.T) {
	before := replicated() // broker 0 leads, 1 is in sync, in incarnation 1
	after := replicated()
	metadata.RecordISR(&after.Status, after.Status.ISR[:1])
	crashed := placement.BrokerState{Liveness: placement.Up, Epoch: 2, CleanEpoch: -1,
		Directory: "disk-1"}
	stopped := placement.BrokerState{Liveness: placement.Up, Epoch: 2, CleanEpoch: 1,
		Directory: "disk-1"}
	for name, c := range map[string]struct {
		now  placement.BrokerState
		want bool
	}{"it has ended": {crashed, true}, "it stopped in order": {stopped, false},
		"it is away": {placement.BrokerState{}, false}} {
		if got := outOnly(before, after, map[int32]placement.BrokerState{1: c.now}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if outOnly(before, before, map[int32]placement.BrokerState{1: crashed}) {
		t.Error("a change that keeps it")
	}
}
