package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNewLeaderDoesNotKnowTheNewestRecord checks that a new leader refuses readers of the newest
// records until its high watermark has reached the start of its epoch, because the old leader may
// have acknowledged a record above it. Afterwards it must refuse a reader's old epoch.
func TestNewLeaderDoesNotKnowTheNewestRecord(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		if _, epoch, err := n.nodes[1].LeaderOfNewest(partitionA); err != nil || epoch != 1 {
			t.Fatalf("the first leader: epoch %d, error %v", epoch, err)
		}
		n.nodes[3].disconnected.Store(true) // prevents the high watermark from advancing
		go n.produce(1, "b")
		synctest.Wait()
		n.nodes[1].disconnected.Store(true)
		n.elect(2, 2, 3)
		n.apply(2)
		if log := n.log(2); log.LogEnd() != 2 || log.HighWatermark() != 1 {
			t.Fatalf("log end %d, high watermark %d", log.LogEnd(), log.HighWatermark())
		}
		if _, err := n.nodes[2].Leader(partitionA, -1); err != nil {
			t.Error(err)
		}
		if _, _, err := n.nodes[2].LeaderOfNewest(partitionA); !errors.Is(err,
			ErrOffsetNotAvailable) {
			t.Errorf("below the start of the epoch: error %v", err)
		}
		n.nodes[3].disconnected.Store(false)
		n.apply(3)
		n.settle(time.Second)
		log, epoch, err := n.nodes[2].LeaderOfNewest(partitionA)
		if err != nil || epoch != 2 || log.HighWatermark() != 2 {
			t.Errorf("after replication: epoch %d, error %v", epoch, err)
		}
		if _, err := n.nodes[2].Leader(partitionA, 1); !errors.Is(err, ErrFencedLeaderEpoch) {
			t.Errorf("a reader of the old epoch: error %v", err)
		}
		n.nodes[1].disconnected.Store(false)
		n.apply(1)
		n.settle(time.Second)
	})
}
