package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// deleteBefore deletes records at a leader, and awaits that nobody in sync has them.
func (n *nodes) deleteBefore(at int32, offset int64, within time.Duration) (lowest int64,
	err error) {
	n.t.Helper()
	if err := n.log(at).DeleteBefore(offset); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	return n.nodes[at].AwaitLogStart(ctx, partitionA, offset)
}

// TestDeletedIsWhatNobodyInSyncHas: the answer waits for those in sync, and for nobody else.
func TestDeletedIsWhatNobodyInSyncHas(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a", "b", "c")
		n.settle(time.Second)
		if lowest, err := n.deleteBefore(1, 1, time.Second); lowest != 1 || err != nil {
			t.Errorf("%d, %v", lowest, err)
		}
		n.nodes[3].cut.Store(true)
		if _, err := n.deleteBefore(1, 2, time.Second); !errors.Is(err, ErrTimeout) {
			t.Errorf("while one in sync is cut off: %v, want %v", err, ErrTimeout)
		}
		n.mustProduce(1, "d") // it is out of sync by then
		if lowest, err := n.deleteBefore(1, 3, time.Second); lowest != 3 || err != nil {
			t.Errorf("once it is out of sync: %d, %v", lowest, err)
		}
		n.nodes[3].cut.Store(false)
		n.settle(3 * time.Second)
		if start := n.log(3).LogStart(); start != 3 || !slices.Contains(n.isr(), 3) {
			t.Errorf("back again its log begins at %d, in sync are %v", start, n.isr())
		}
	})
}

// TestDeletedIsWhatNobodyHasWhoMayBeInSync: a follower was proposed to be taken in, and nobody
// knows whether it was. It may be elected.
func TestDeletedIsWhatNobodyHasWhoMayBeInSync(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.nodes[2].cut.Store(true)
		n.mustProduce(1, "a", "b", "c") // once 2 is out of sync
		n.meta.mu.Lock()
		n.meta.lose = 1000
		n.meta.mu.Unlock()
		n.nodes[2].cut.Store(false)
		for range 30 {
			if n.settle(100 * time.Millisecond); slices.Contains(n.isr(), 2) {
				break
			}
		}
		if !slices.Contains(n.isr(), 2) {
			t.Fatal("broker 2 was not taken in")
		}
		n.nodes[2].cut.Store(true)
		if _, err := n.deleteBefore(1, 2, time.Second); !errors.Is(err, ErrTimeout) {
			t.Errorf("%v, want %v: broker 2 is in sync on record, and its log begins at %d", err,
				ErrTimeout, n.log(2).LogStart())
		}
	})
}

// TestNobodyJoinsWithWhatWasDeleted: a follower that has everything, and more than it should, is
// taken in once it has deleted that.
func TestNobodyJoinsWithWhatWasDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	i := newISR(1, 0, time.Second)
	i.image([]replicaState{{broker: 1, living: 1}, {broker: 2, living: 1}}, []int32{1}, now)
	for _, c := range []struct {
		start int64
		want  bool
	}{{4, false}, {5, true}} {
		if !i.fetched(metadata.InSync{Broker: 2, Epoch: 1}, 10, 10, now) {
			t.Fatal("the fetch is refused")
		}
		i.members[2].logStart = c.start
		if _, to, ok := i.propose(1, extent{5, 10, 10}, now); ok != c.want {
			t.Errorf("a log from %d on: proposed %t (%v), want %t", c.start, ok, to, c.want)
		}
	}
}
