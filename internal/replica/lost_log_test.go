package replica

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// withLostLog runs a test with three brokers that have three records. Broker 1 stops, damage
// removes a part of its disk's contents, and broker 1 starts again.
func withLostLog(t *testing.T, damage func(t *testing.T, n *nodes), test func(n *nodes)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 3, nil)
		n.setReplicas(n.ids, "x", "x", "x")
		n.apply()
		n.mustProduce(1, "a", "b", "c")
		n.settle(time.Second)
		n.crash(1, false)
		damage(t, n)
		n.start(1)
		test(n)
	})
}

func removeLog(t *testing.T, n *nodes) {
	disk := n.nodes[1].disk
	if err := errors.Join(disk.RemoveAll("/data/a-0"), disk.SyncDir("/data")); err != nil {
		t.Error(err)
	}
}

// removeEvidence damages the log and also removes the checkpoints, which would show the loss.
func removeEvidence(t *testing.T, n *nodes) {
	removeLog(t, n)
	entries, err := n.nodes[1].disk.ReadDir("/data")
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-checkpoint") {
			if err := n.nodes[1].disk.Remove("/data/" + entry.Name()); err != nil {
				t.Error(err)
			}
		}
	}
}

// served applies the current image on broker 1, and returns the broker's report.
func (n *nodes) served() metadata.Served {
	n.t.Helper()
	served, err := n.nodes[1].Apply(n.meta.image())
	if err != nil {
		n.t.Error(err)
	}
	if len(served) == 0 {
		return metadata.Served{}
	}
	return served[0]
}

// recordLoss changes the metadata as after a report of broker 1's loss, and elects broker 2.
func (n *nodes) recordLoss() {
	n.t.Helper()
	n.change(func(p *metadata.Partition) { p.ReplicaIncarnations = []string{"y", "x", "x"} })
	n.elect(2, 2, 3)
}

// wantRefilled fails the test unless broker 1 has copied broker 2's records.
func (n *nodes) wantRefilled() {
	n.t.Helper()
	for range 30 {
		n.settle(time.Second)
		n.apply()
	}
	n.wantISR(1, 2, 3)
	n.equal(2, 1)
	if loss := n.log(1).Notes().Loss(); loss != "" {
		n.t.Errorf("after the log was copied: loss %q", loss)
	}
	if id, err := n.log(1).Notes().ReplicaIncarnation(); err != nil || id != "y" {
		n.t.Errorf("replica incarnation %q, %v", id, err)
	}
}

// TestLostLogDoesNotLead checks that a broker that has lost its log refuses to lead, reports the
// loss, and copies the log once another broker leads. It was elected because it had stopped
// gracefully.
func TestLostLogDoesNotLead(t *testing.T) {
	withLostLog(t, removeLog, func(n *nodes) {
		n.elect(1, 1, 2, 3)
		want := metadata.Served{Topic: n.meta.topic.ID, LeaderEpoch: 2, Lost: true,
			ReplicaIncarnation: "x"}
		if got := n.served(); got != want {
			n.t.Errorf("reported %+v, want %+v", got, want)
		}
		if r := n.produce(1, "lost"); !errors.Is(r.Err, ErrNotLeader) {
			n.t.Errorf("produce: %v", r.Err)
		}
		n.settle(time.Minute)
		if end := n.log(2).LogEnd(); end != 3 {
			n.t.Errorf("broker 2 has %d records", end)
		}
		state := n.nodes[1].States()[0]
		if !errors.Is(state.Fault, ErrLostLog) || state.Leader {
			n.t.Errorf("state %+v", state)
		}
		n.recordLoss()
		n.wantRefilled()
	})
}

// removeRecordedLog removes the log of a broker whose loss the metadata store records before the
// broker registers, with the replica incarnation id y.
func removeRecordedLog(t *testing.T, n *nodes) {
	removeLog(t, n)
	n.recordedLosses = &metadata.Losses{Logs: []metadata.LostLog{{Topic: partitionA.Topic,
		Partition: partitionA.Index, Next: "y"}}}
}

// TestRecordedLossIsNotReported checks a broker whose first image contains the id with which its
// loss was recorded. It must copy the log without another report. A loss that it finds later
// concerns the same id, and must be reported.
func TestRecordedLossIsNotReported(t *testing.T) {
	withLostLog(t, removeRecordedLog, func(n *nodes) {
		n.recordLoss()
		if got := n.served(); got != (metadata.Served{}) {
			n.t.Errorf("reported %+v", got)
		}
		n.wantRefilled()
		p := n.nodes[1].view.Load().partitions[partitionA]
		if _, err := n.nodes[1].declareLost(p, p.role.Load(), "lost"); err != nil {
			n.t.Fatal(err)
		}
		if got := n.served(); !got.Lost || got.ReplicaIncarnation != "y" {
			n.t.Errorf("a later loss: reported %+v", got)
		}
	})
}

// TestImageOlderThanTheRecordedLoss checks a broker whose first image is older than the record of
// its loss. Until an image contains the new id, the broker must not follow, although it is no
// longer in sync.
func TestImageOlderThanTheRecordedLoss(t *testing.T) {
	withLostLog(t, removeRecordedLog, func(n *nodes) {
		n.elect(2, 1, 2, 3)
		n.settle(time.Second)
		if got := n.served(); !got.Lost || got.ReplicaIncarnation != "x" {
			n.t.Errorf("reported %+v", got)
		}
		if end := n.log(1).LogEnd(); end != 0 {
			n.t.Errorf("broker 1 has copied %d records", end)
		}
		n.recordLoss()
		n.wantRefilled()
	})
}

// TestLostLogDoesNotFollow checks that an ISR member that has lost its log fetches nothing before
// it has left the ISR, even after a restart.
func TestLostLogDoesNotFollow(t *testing.T) {
	withLostLog(t, removeLog, func(n *nodes) {
		n.elect(2, 1, 2, 3)
		n.settle(time.Second)
		n.crash(1, false)
		n.start(1)
		n.apply()
		n.settle(time.Second)
		if got := n.served(); !got.Lost {
			n.t.Errorf("reported %+v", got)
		}
		if end := n.log(1).LogEnd(); end != 0 {
			n.t.Errorf("broker 1 has copied %d records", end)
		}
		n.recordLoss()
		n.wantRefilled()
	})
}

// TestRecordedLossOfTheLastReplica checks that a replica whose loss is recorded waits while no
// broker leads. If it is elected with another incarnation id, the loss was accepted, and it must
// lead.
func TestRecordedLossOfTheLastReplica(t *testing.T) {
	withLostLog(t, removeLog, func(n *nodes) {
		n.elect(metadata.NoBroker, 1)
		n.crash(2, false)
		n.crash(3, false)
		n.change(func(p *metadata.Partition) { p.ReplicaIncarnations = []string{"y", "x", "x"} })
		n.elect(metadata.NoBroker, 1)
		if got := n.served(); got != (metadata.Served{}) {
			n.t.Errorf("reported %+v", got)
		}
		if fault := n.nodes[1].States()[0].Fault; !errors.Is(fault, ErrLostLog) {
			n.t.Errorf("fault %v", fault)
		}
		n.change(func(p *metadata.Partition) { p.UnprovenEpoch = p.LeaderEpoch + 1 })
		n.elect(1, 1)
		if got := n.served(); got.Lost || got.LeaderEpoch != 4 || n.log(1).Notes().Loss() != "" {
			n.t.Errorf("after the loss was accepted: reported %+v, loss %q", got, n.log(1).Notes().Loss())
		}
		n.mustProduce(1, "new")
	})
}

// TestLeaderLearnsOfItsLossFromAFollower checks that a leader detects from a follower's fetch that
// it has lost records, if its disk does not show the loss because the checkpoints were removed too.
func TestLeaderLearnsOfItsLossFromAFollower(t *testing.T) {
	withLostLog(t, removeEvidence, func(n *nodes) {
		n.elect(1, 1, 2, 3)
		n.settle(time.Second)
		if n.log(1).Notes().Loss() == "" || n.log(2).LogEnd() != 3 {
			n.t.Fatalf("loss %q, broker 2 ends at %d", n.log(1).Notes().Loss(), n.log(2).LogEnd())
		}
		if got := n.served(); !got.Lost {
			n.t.Errorf("reported %+v", got)
		}
		n.recordLoss()
		n.wantRefilled()
	})
}

// TestAcceptedLossTruncatesFollowers checks that followers truncate below their high watermark
// after an unclean election, because the records are no longer part of the partition.
func TestAcceptedLossTruncatesFollowers(t *testing.T) {
	withLostLog(t, removeEvidence, func(n *nodes) {
		n.change(func(p *metadata.Partition) { p.UnprovenEpoch = p.LeaderEpoch + 1 })
		n.elect(1, 1)
		n.mustProduce(1, "new")
		for range 30 {
			n.settle(time.Second)
			n.apply()
		}
		n.wantISR(1, 2, 3)
		n.equal(1, 2, 3)
	})
}

// TestFollowerKeepsWhatTheLeaderLacks checks that a follower stops and reports an error if its
// leader, which runs an earlier version, has lost its log without noticing.
func TestFollowerKeepsWhatTheLeaderLacks(t *testing.T) {
	withLostLog(t, removeLog, func(n *nodes) {
		n.elect(1, 1, 2, 3) // the broker refuses to lead, so nothing is fetched
		n.settle(time.Second)
		p := n.nodes[2].view.Load().partitions[partitionA]
		for name, got := range map[string]FollowerResult{
			"diverging":    {ID: partitionA, DivergingEpoch: 0, LogEnd: -1, HighWater: -1},
			"out of range": {ID: partitionA, DivergingEpoch: -1, Err: errOutOfRangeOf(n)},
		} {
			r := p.role.Load()
			sent, err := p.followerRequest(r, 1<<20)
			if err != nil {
				n.t.Fatal(err)
			}
			if _, err := p.applyResponse(r, &sent, &got, time.Now()); !errors.Is(err,
				errTruncatesCommitted) {
				n.t.Errorf("%s: %v", name, err)
			}
			if end := p.log.LogEnd(); end != 3 {
				n.t.Errorf("%s: the log ends at %d", name, end)
			}
		}
	})
}

// errOutOfRangeOf returns the error with which an empty log answers a fetch at the follower's log
// end.
func errOutOfRangeOf(n *nodes) error {
	_, err := n.log(1).ReadReplica(3, 1, true)
	return err
}
