package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// The leader's log is a copy of a cleaned one: it has nothing between two epochs, and does not know where the second began. A follower that
// comes back has records there, all below its high watermark: they were superseded, and stay until it cleans them itself.
func TestWhatIsBelowTheHighWatermarkIsNotCutOff(t *testing.T) {
	for name, unproven := range map[string]bool{"nothing was lost": false, "records may have been lost": true} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
				n.put(1, "stays", []byte("value"))
				n.put(1, "gone", []byte("value"))
				n.settle(time.Second)
				n.stopNode(2)
				n.elect(1, 1) // another epoch
				n.put(1, "gone", nil)
				n.put(1, "last", []byte("value"))
				n.settle(3 * time.Minute)
				n.clean(1)
				n.want(1, "gone", false, true)
				n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
				n.apply()
				n.want3IsInSync()
				if found, end := n.log(3).EndOffsetFor(1); found != 1 || end != 1 {
					n.t.Fatalf("the copy's epoch %d ends at %d, want 1: then it has no gap", found, end)
				}
				n.change(func(p *metadata.Partition) {
					if unproven {
						p.UnprovenEpoch = p.LeaderEpoch + 1
					}
				})
				n.elect(3, 3)
				n.stopNode(1)
				n.apply()
				n.startNode(2)
				for range 30 {
					n.settle(time.Second)
					if slices.Contains(n.isr(), 2) {
						break
					}
				}
				n.want(2, "stays", true, false)
				n.want(2, "gone", !unproven, true)
			})
		})
	}
}

// A follower has cleaned a record away for the sake of a later one, which the leader has lost: it has to have the earlier one again.
func TestAReplicaThatWasCleanedWithWhatWasLostBeginsAnew(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.put(1, "key", []byte("value"))
		n.settle(3 * time.Second)
		disk := n.nodes.nodes[1].disk.KillClone()
		n.put(1, "key", nil)
		n.put(1, "last", []byte("value"))
		n.settle(3 * time.Minute)
		n.clean(2)
		n.want(2, "key", false, true)

		n.stopNode(1)
		n.nodes.nodes[1].disk = disk // the power went, and this is what had been synced
		n.stopNode(2)
		n.change(func(p *metadata.Partition) { p.UnprovenEpoch = p.LeaderEpoch + 1 })
		n.elect(1, 1)
		n.startNode(1)
		n.put(1, "new", []byte("value"))
		n.startNode(2)
		for range 30 {
			n.settle(time.Second)
			n.apply()
		}
		if !slices.Contains(n.isr(), 2) {
			n.t.Fatalf("in sync are %v", n.isr())
		}
		n.equal(1, 2)
		n.want(2, "key", true, false)
		n.want(2, "last", false, false)
	})
}

// A broker leads for a moment, in which nothing is appended, and the leader of before and after does not hear of it: it goes on with records
// of an epoch below that one. Who led meanwhile follows.
func TestAnEpochWithoutRecordsKeepsNobodyFromFollowing(t *testing.T) {
	for name, compact := range map[string]bool{"compacted": true, "not compacted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, 2, func(topic *metadata.Topic) { topic.Settings.Compact = compact })
				n.nodes[1].Append(AcksAll, []ProducePartition{{ID: partitionA, Batch: keyed(t, "of", []byte("all"))}})
				n.settle(time.Second)
				n.nodes[1].cut.Store(true)
				n.nodes[2].cut.Store(true)
				n.nodes[1].Append(1, []ProducePartition{{ID: partitionA, Batch: keyed(t, "of", []byte("1 alone"))}})
				lead := func(leader int32, isr ...int32) {
					n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.ISR = leader, p.LeaderEpoch+1, isr })
					n.apply(2)
				}
				lead(2, 1, 2)
				lead(1, 1)
				n.nodes[1].cut.Store(false)
				n.nodes[2].cut.Store(false)
				n.apply()
				for range 30 {
					n.settle(time.Second)
					n.apply()
				}
				if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
					t.Errorf("in sync are %v, want all", isr)
				}
				n.equal(1, 2)
			})
		})
	}
}
