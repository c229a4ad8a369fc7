package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// setReplicas assigns the partition to brokers. The replica incarnation ids are in the order of
// replicas.
func (n *nodes) setReplicas(replicas []int32, incarnations ...string) {
	n.change(func(p *metadata.Partition) {
		p.Replicas, p.ReplicaIncarnations = replicas, incarnations
		p.ISR = slices.DeleteFunc(slices.Clone(p.ISR),
			func(id int32) bool { return !slices.Contains(replicas, id) })
	})
}

// reassignAway writes a key to brokers 1 to 3, calls before, and then removes broker 3 from the
// partition's replicas. Then it deletes the key and lets the other brokers remove the value and the
// tombstone. The image without broker 3 is applied on the brokers in appliedBy, or on all brokers
// if appliedBy is empty.
func (n *cleanedNodes) reassignAway(before func(), appliedBy ...int32) {
	n.t.Helper()
	n.setReplicas([]int32{1, 2, 3}, "a", "b", "c")
	n.apply()
	n.put(1, "gone", []byte("value"))
	n.put(1, "stays", []byte("value"))
	n.settle(time.Second)
	n.want(3, "gone", true, false)
	before()
	n.setReplicas([]int32{1, 2}, "a", "b")
	n.apply(appliedBy...)
	n.put(1, "gone", nil)
	n.put(1, "last", []byte("value"))
	for range 4 {
		n.settle(3 * time.Minute)
		n.clean(1, 2)
	}
	for _, id := range []int32{1, 2} {
		n.want(id, "gone", false, false)
	}
}

// wantCopied fails the test unless broker 3 joins the ISR and has exactly the other brokers'
// records.
func (n *cleanedNodes) wantCopied() {
	n.t.Helper()
	n.want3IsInSync()
	n.equal(1, 3)
	n.want(3, "gone", false, false)
	n.want(3, "stays", true, false)
	if id, err := n.log(3).Notes().ReplicaIncarnation(); err != nil || id != "again" {
		n.t.Errorf("broker 3's log has incarnation id %q, %v", id, err)
	}
}

// TestReplacedIncarnationRestoresNoDeletedKey checks that a broker that is removed from the
// replicas, and later added again, discards its old log. The broker is down in between, and its log
// contains a value that has since been deleted.
func TestReplacedIncarnationRestoresNoDeletedKey(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
		n.reassignAway(func() { n.stopNode(3) })
		n.setReplicas([]int32{1, 2, 3}, "a", "b", "again")
		n.apply()
		n.startNode(3)
		n.wantCopied()

		// Check that a restart keeps the log.
		end := n.log(3).LogEnd()
		n.stopNode(3)
		n.startNode(3)
		if n.log(3).LogEnd() != end {
			n.t.Errorf("log end %d after a restart, %d before", n.log(3).LogEnd(), end)
		}
		n.want3IsInSync()
	})
}

// TestFetchOfAnOldIncarnationIsRejected checks that the leader rejects the fetches of a broker that
// missed the images in which it was not a replica, and continues to fetch as its old incarnation.
func TestFetchOfAnOldIncarnationIsRejected(t *testing.T) {
	for name, applied := range map[string][]int32{"the leader has both images": {1, 2},
		"the leader has the last image only": {2}} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
				n.reassignAway(func() { n.nodes.nodes[3].disconnected.Store(true) }, 1, 2)
				// Begin a new leader epoch with the next image, as if the leader had missed the image without
				// broker 3.
				if len(applied) == 1 {
					n.change(func(p *metadata.Partition) { p.LeaderEpoch++ })
				}
				n.setReplicas([]int32{1, 2, 3}, "a", "b", "again")
				n.apply(1, 2)
				n.nodes.nodes[3].disconnected.Store(false)
				n.settle(20 * time.Second)
				if slices.Contains(n.isr(), 3) {
					n.t.Fatal("broker 3 is in the ISR with the log of an old incarnation")
				}
				n.apply()
				n.wantCopied()
			})
		})
	}
}

// TestLogOfAnISRMemberIsAdopted checks that an ISR member's log is never discarded, whatever
// incarnation it was created for. The incarnation ids differ if a Partition was deleted and created
// again.
func TestLogOfAnISRMemberIsAdopted(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		n.setReplicas([]int32{1, 2}, "x", "y")
		n.apply()
		for id, want := range map[int32]string{1: "x", 2: "y"} {
			n.want(id, "stays", true, false)
			if got, err := n.log(id).Notes().ReplicaIncarnation(); err != nil || got != want {
				n.t.Errorf("broker %d's log has incarnation id %q, %v; want %q", id, got, err, want)
			}
		}
		// The log is also kept if the partition has no leader, because it may be the last copy.
		n.change(func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.ISR = metadata.NoBroker, p.LeaderEpoch+1, []int32{1}
		})
		n.setReplicas([]int32{1, 2}, "x", "z")
		n.apply()
		n.want(2, "stays", true, false)
	})
}

// TestLogIsKeptWhileMembershipIsUndecided checks that broker 2 keeps its log while the recorded ISR
// contains an earlier epoch of the broker, because it may still become an ISR member in its current
// epoch. Once it is outside the ISR, it must discard its log and copy the leader's log.
func TestLogIsKeptWhileMembershipIsUndecided(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		setISR := func(epoch int64, isr ...int32) {
			n.change(func(p *metadata.Partition) {
				p.ReplicaIncarnations, p.ISR, p.ISREpochs = []string{"x", "y"}, isr,
					[]int64{1, epoch}[:len(isr)]
			})
			n.apply()
		}
		setISR(0, 1, 2) // broker 2 is in epoch 1 now
		n.want(2, "stays", true, false)
		if _, err := n.nodes.nodes[2].Leader(partitionA, -1); !errors.Is(err, ErrNotLeader) {
			n.t.Errorf("while the membership is undecided: %v", err)
		}
		setISR(0, 1)
		n.wantRecopied(2)
	})
}

// wantRecopied waits until a broker has discarded its log and copied the leader's log.
func (n *cleanedNodes) wantRecopied(id int32) {
	n.t.Helper()
	for range 30 {
		n.settle(time.Second)
		n.apply()
		if incarnation, err := n.log(id).Notes().ReplicaIncarnation(); err == nil && incarnation == "y" &&
			slices.Contains(n.isr(), id) {
			n.want(id, "stays", true, false)
			return
		}
	}
	n.t.Fatalf("broker %d is not in the ISR: %v", id, n.isr())
}
