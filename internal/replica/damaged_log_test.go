package replica

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestDamagedLogServesUntilItMayBeCopied checks that a broker that requests to copy its log again
// leads and follows as before while the request is not granted. Then it discards the log and copies
// the records.
func TestDamagedLogServesUntilItMayBeCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodesFlushing(t, 3, time.Second, func(topic *metadata.Topic) {
			topic.Settings.SegmentBytes = 1000
			topic.Settings.MinInSyncReplicas = 2
		})
		n.setReplicas(n.ids, "x", "x", "x")
		for range 10 {
			n.apply()
			n.settle(time.Second)
		}
		n.wantISR(1, 2, 3)
		for range 5 {
			n.mustProduce(1, strings.Repeat("a", 900))
		}
		n.settle(time.Minute)
		damaged := n.log(1).AtRest()
		if len(damaged) == 0 {
			t.Fatal("no segment at rest")
		}
		damaged[0].MarkDamaged()
		reports := func() []metadata.Served {
			served, err := n.nodes[1].Apply(n.meta.image())
			if err != nil {
				t.Error(err)
			}
			return served
		}
		n.nodes[1].DeclareLost(partitionA, "a flipped bit")
		for range 2 { // each image repeats the request
			want := []metadata.Served{{Topic: n.meta.topic.ID, Damaged: true, ReplicaIncarnation: "x",
				MinInSync: 2}, {Topic: n.meta.topic.ID, LeaderEpoch: 1}}
			if diff := cmp.Diff(want, reports()); diff != "" {
				t.Error(diff)
			}
			n.mustProduce(1, "b")
		}
		if loss := n.log(1).Notes().Loss(); loss != "" {
			t.Errorf("loss %q before the request is granted", loss)
		}
		n.recordLoss()
		n.wantRefilled()
		if got := reports(); len(got) != 0 {
			t.Errorf("reported %+v after the copy", got)
		}
	})
}

// TestRemovedDamageEndsTheRequest checks that a log is not copied again for a segment that was
// replaced meanwhile.
func TestRemovedDamageEndsTheRequest(t *testing.T) {
	withLostLog(t, func(*testing.T, *nodes) {}, func(n *nodes) {
		n.elect(1, 1, 2, 3)
		n.nodes[1].DeclareLost(partitionA, "a flipped bit")
		if got := n.served(); got.Damaged {
			n.t.Errorf("reported %+v", got)
		}
	})
}
