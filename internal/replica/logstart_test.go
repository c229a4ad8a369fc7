package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// deleteBefore deletes the records below an offset on a leader, and waits until no ISR member has
// them, for at most within.
func (n *nodes) deleteBefore(id int32, offset int64, within time.Duration) (lowest int64,
	err error) {
	n.t.Helper()
	if err := n.log(id).DeleteBefore(offset); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	return n.nodes[id].AwaitLogStart(ctx, partitionA, offset)
}

// TestAwaitLogStartWaitsForTheISR checks that AwaitLogStart waits for every member of the ISR, and
// for no other replica.
func TestAwaitLogStartWaitsForTheISR(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a", "b", "c")
		n.settle(time.Second)
		if lowest, err := n.deleteBefore(1, 1, time.Second); lowest != 1 || err != nil {
			t.Errorf("%d, %v", lowest, err)
		}
		n.nodes[3].disconnected.Store(true)
		if _, err := n.deleteBefore(1, 2, time.Second); !errors.Is(err, ErrTimeout) {
			t.Errorf("while an ISR member is disconnected: %v, want %v", err, ErrTimeout)
		}
		n.mustProduce(1, "d") // acknowledged after broker 3 has left the ISR
		if lowest, err := n.deleteBefore(1, 3, time.Second); lowest != 3 || err != nil {
			t.Errorf("after it has left the ISR: %d, %v", lowest, err)
		}
		n.nodes[3].disconnected.Store(false)
		n.settle(3 * time.Second)
		if start := n.log(3).LogStart(); start != 3 || !slices.Contains(n.isr(), 3) {
			t.Errorf("after its return: log start %d, ISR %v", start, n.isr())
		}
	})
}

// TestAwaitLogStartWaitsForPendingUpdates checks that AwaitLogStart waits for broker 2 if an update
// that adds broker 2 to the ISR was recorded, but the leader has not received the answer. Broker 2
// may be elected.
func TestAwaitLogStartWaitsForPendingUpdates(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.nodes[2].disconnected.Store(true)
		n.mustProduce(1, "a", "b", "c") // acknowledged after broker 2 has left the ISR
		n.meta.mu.Lock()
		n.meta.lose = 1000
		n.meta.mu.Unlock()
		n.nodes[2].disconnected.Store(false)
		for range 30 {
			if n.settle(100 * time.Millisecond); slices.Contains(n.isr(), 2) {
				break
			}
		}
		if !slices.Contains(n.isr(), 2) {
			t.Fatal("broker 2 did not join the ISR")
		}
		n.nodes[2].disconnected.Store(true)
		if _, err := n.deleteBefore(1, 2, time.Second); !errors.Is(err, ErrTimeout) {
			t.Errorf("%v, want %v: broker 2 is in the recorded ISR with log start %d", err,
				ErrTimeout, n.log(2).LogStart())
		}
	})
}
