package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// place puts the partition on brokers, each by the assignment of its place, on record.
func (n *nodes) place(replicas []int32, assignments ...string) {
	n.change(func(p *metadata.Partition) {
		p.Replicas, p.ReplicaIncarnations = replicas, assignments
		p.ISR = slices.DeleteFunc(slices.Clone(p.ISR),
			func(id int32) bool { return !slices.Contains(replicas, id) })
	})
}

// takenOff has brokers 1 to 3 hold a key, and takes 3 off while before says what becomes of it; the
// key is deleted meanwhile, and nobody else has it or its tombstone any more.
func (n *cleanedNodes) takenOff(before func(), hear ...int32) {
	n.t.Helper()
	n.place([]int32{1, 2, 3}, "a", "b", "c")
	n.apply()
	n.put(1, "gone", []byte("value"))
	n.put(1, "stays", []byte("value"))
	n.settle(time.Second)
	n.want(3, "gone", true, false)
	before()
	n.place([]int32{1, 2}, "a", "b")
	n.apply(hear...)
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

// wantCopied fails unless broker 3 comes into sync with what the others have and nothing else.
func (n *cleanedNodes) wantCopied() {
	n.t.Helper()
	n.want3IsInSync()
	n.equal(1, 3)
	n.want(3, "gone", false, false)
	n.want(3, "stays", true, false)
	if id, err := n.log(3).Assignment(); err != nil || id != "again" {
		n.t.Errorf("broker 3's log is of assignment %q, %v", id, err)
	}
}

// It is down while it is no replica, and comes back with its log of the time before.
func TestAReplicaThatIsPutBackBringsNoDeletedKeyBack(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
		n.takenOff(func() { n.stopNode(3) })
		n.place([]int32{1, 2, 3}, "a", "b", "again")
		n.apply()
		n.startNode(3)
		n.wantCopied()

		// A restart does not take it for another's.
		end := n.log(3).LogEnd()
		n.stopNode(3)
		n.startNode(3)
		if n.log(3).LogEnd() != end {
			n.t.Errorf("behind a restart its log ends at %d, before at %d", n.log(3).LogEnd(), end)
		}
		n.want3IsInSync()
	})
}

// It lives, hears nothing of all that, and goes on to fetch as the replica that it was: it is none.
func TestAReplicaOfThePastIsNotHeard(t *testing.T) {
	for name, heard := range map[string][]int32{"the leader heard of all": {1, 2},
		"the leader heard of the end only": {2}} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
				n.takenOff(func() { n.nodes.nodes[3].cut.Store(true) }, 1, 2)
				// as if it had missed that: it leads in another epoch, from an image of the end on
				if len(heard) == 1 {
					n.change(func(p *metadata.Partition) { p.LeaderEpoch++ })
				}
				n.place([]int32{1, 2, 3}, "a", "b", "again")
				n.apply(1, 2)
				n.nodes.nodes[3].cut.Store(false)
				n.settle(20 * time.Second)
				if slices.Contains(n.isr(), 3) {
					n.t.Fatal("broker 3 is in sync with a log of the time before")
				}
				n.apply()
				n.wantCopied()
			})
		})
	}
}

// A log that is the truth is never given up, whatever it was made for: a partition that was made
// anew finds logs.
func TestALogInSyncIsAdopted(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		n.place([]int32{1, 2}, "x", "y")
		n.apply()
		for id, want := range map[int32]string{1: "x", 2: "y"} {
			n.want(id, "stays", true, false)
			if got, err := n.log(id).Assignment(); err != nil || got != want {
				n.t.Errorf("broker %d's log is of assignment %q, %v; want %q", id, got, err, want)
			}
		}
		// Nor while nobody leads: it may be the last one.
		n.change(func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.ISR = metadata.NoBroker, p.LeaderEpoch+1, []int32{1}
		})
		n.place([]int32{1, 2}, "x", "z")
		n.apply()
		n.want(2, "stays", true, false)
	})
}

// What a leader knows of a replica is not what it knows of the same broker by another assignment.
func TestISRForgetsAReplicaThatWasPutBack(t *testing.T) {
	now := time.Unix(1000, 0)
	i := newISR(1, 0, 10*time.Second)
	image := func(assignment string, isr ...int32) {
		i.image([]replicaState{
			{broker: 1, living: 1, assignment: "one"}, {broker: 2, living: 1, assignment: "two"},
			{broker: 3, living: 1, assignment: assignment},
		}, isr, now)
	}
	from := func(assignment string) metadata.InSync {
		return metadata.InSync{Broker: 3, Epoch: 1, ReplicaIncarnation: assignment}
	}
	fetch := func(assignment string, ok bool) {
		t.Helper()
		if i.fetched(from(assignment), 10, 10, now) != ok {
			t.Errorf("a fetch by assignment %q: taken %t", assignment, !ok)
		}
	}
	image("three", 1, 2, 3)
	i.fetched(metadata.InSync{Broker: 2, Epoch: 1, ReplicaIncarnation: "two"}, 10, 10, now)
	fetch("three", true)
	fetch("another", false)
	fetch("", false)
	fetch(AnyReplicaIncarnation, true) // a broker of before there were any
	i.members[3].lonely = 7

	image("again", 1, 2) // what was in between is not known here
	if slices.Contains(i.committed, 3) || i.lonely(9) != 0 || i.members[3].end != -1 {
		t.Errorf("in sync are %v, all tombstones are lonely below %d, the follower is %+v",
			i.committed, i.lonely(9), i.members[3])
	}
	fetch("three", false)
	fetch("again", true)
	_, to, ok := i.propose(1, extent{hw: 10, end: 10}, now)
	want := []metadata.InSync{{Broker: 1, Epoch: 1, ReplicaIncarnation: "one"},
		{Broker: 2, Epoch: 1, ReplicaIncarnation: "two"}, from("again")}
	if !ok || !slices.Equal(to, want) {
		t.Errorf("proposed %+v, want %+v", to, want)
	}
	i.settled(outcomeDone, now)

	image("", 1, 2, 3) // written by an operator of before there were any
	if !slices.Contains(i.committed, 3) || i.members[3].end != 10 {
		t.Errorf("in sync are %v, the follower is %+v", i.committed, i.members[3])
	}
	fetch("whatever", true)
}

// Whoever is on record as in sync in an earlier life is waited for: it may be so in this one.
func TestALogIsKeptUntilItIsKnownWhetherItIsInSync(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		record := func(epoch int64, isr ...int32) {
			n.change(func(p *metadata.Partition) {
				p.ReplicaIncarnations, p.ISR, p.ISREpochs = []string{"x", "y"}, isr,
					[]int64{1, epoch}[:len(isr)]
			})
			n.apply()
		}
		record(0, 1, 2) // its life is 1
		n.want(2, "stays", true, false)
		if _, err := n.nodes.nodes[2].Leader(partitionA, -1); !errors.Is(err, ErrNotLeader) {
			n.t.Errorf("what is not settled yet refuses with %v", err)
		}
		record(0, 1)
		n.want3rd(2)
	})
}

// want3rd waits until a broker that has given its log up has copied it again.
func (n *cleanedNodes) want3rd(id int32) {
	n.t.Helper()
	for range 30 {
		n.settle(time.Second)
		n.apply()
		if assignment, err := n.log(id).Assignment(); err == nil && assignment == "y" &&
			slices.Contains(n.isr(), id) {
			n.want(id, "stays", true, false)
			return
		}
	}
	n.t.Fatalf("broker %d is not in sync: %v", id, n.isr())
}
