package partition

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/internal/placement"
)

// TestElectionExceedsAFoundEpoch: a Partition was created again and starts at leader epoch 0. The
// leader finds leader epoch 7 in its log. The next election must start an epoch above 7.
func TestElectionExceedsAFoundEpoch(t *testing.T) {
	h := newHistory()
	h.elect(brokerUp(1, "disk"), 1)
	h.partition.Status.FoundEpoch = new(int32(7))
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 8, 1)
	if h.partition.Status.FoundEpoch != nil {
		t.Error("foundEpoch is still set after the election")
	}
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 8, 1)

	// The leader reports foundEpoch 20 and fails before the next election.
	h.partition.Status.FoundEpoch = new(int32(20))
	h.elect(placement.BrokerState{}, 1)
	h.elect(brokerUp(2, "disk"), 1)
	h.expect(t, 0, 21, 2)
}

// TestRecreatedPartitionIsLedByAnInSyncReplica: a Partition with a stored status is created again.
// Only an in-sync replica of that status may lead it, with a later leader epoch, even if another
// replica is up and has a log.
func TestRecreatedPartitionIsLedByAnInSyncReplica(t *testing.T) {
	last := v1alpha1.PartitionStatus{
		Leader: 2, LeaderEpoch: 7, UnprovenEpoch: 3, LeaderDirectory: "disk 2",
		Replicas: []int32{0, 1, 2}, ServingEpoch: new(int32(7)), InSync: "1,2",
		ISR: []v1alpha1.InSyncReplica{{Broker: 1, BrokerEpoch: 4, Directory: "disk 1"},
			{Broker: 2, BrokerEpoch: 5, Directory: "disk 2"}},
		Assignments: []v1alpha1.ReplicaAssignment{{Broker: 0, ID: "a"}, {Broker: 1, ID: "b"},
			{Broker: 2, ID: "c"}},
	}
	for name, test := range map[string]struct {
		brokers map[int32]placement.BrokerState
		leader  int32
		isr     int
	}{
		"all up": {map[int32]placement.BrokerState{0: brokerUp(9, "disk 0"),
			1: brokerUp(4, "disk 1"), 2: brokerUp(5, "disk 2")}, 1, 2},
		"only a replica that is not in sync": {map[int32]placement.BrokerState{0: brokerUp(9,
			"disk 0")},
			placement.NoLeader, 2},
		"one in-sync replica up": {map[int32]placement.BrokerState{0: brokerUp(9, "disk 0"),
			2: brokerUp(5, "disk 2")}, 2, 1},
		"in-sync replica with another disk": {map[int32]placement.BrokerState{0: brokerUp(9,
			"disk 0"),
			2: brokerUp(6, "disk 3")}, placement.NoLeader, 2},
		"in-sync replica after an unclean restart": {map[int32]placement.BrokerState{2: brokerUp(6,
			"disk 2")},
			placement.NoLeader, 2},
	} {
		h := newHistory()
		h.partition.Spec.Replicas = []int32{0, 1, 2}
		if err := laststatus.Annotate(&h.partition, last); err != nil {
			t.Fatal(err)
		}
		for range 2 { // in the second round, the annotation must not undo the first election
			e := electorate{partition: laststatus.Restore(&h.partition), brokers: test.brokers,
				topicPartitions: 1, replicaIncarnation: "new"}
			h.partition.Status = e.elect().status
		}
		status := h.partition.Status
		if status.Leader != test.leader || status.LeaderEpoch < 8 || len(status.ISR) != test.isr ||
			status.UnprovenEpoch != 3 {
			t.Errorf(
				"%s: got leader %d, leader epoch %d (unproven %d), ISR %+v; want leader %d, ISR of %d",
				name,
				status.Leader,
				status.LeaderEpoch,
				status.UnprovenEpoch,
				status.ISR,
				test.leader,
				test.isr,
			)
		}
		if !slices.Equal(status.Assignments, last.Assignments) {
			t.Errorf("%s: got incarnation ids %+v, want %+v", name, status.Assignments,
				last.Assignments)
		}
	}
}
