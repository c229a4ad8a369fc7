package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/placement"
)

// TestSetISRMarksFencedReplicas checks which members of a recorded ISR, all recorded in broker
// epoch 3, are fenced. Broker 0 leads, 1 has restarted uncleanly, 2 is down, and 3 has restarted
// after a clean shutdown. Only broker 1 must be fenced: broker 2 may return with all of its
// records, and a leader leaves the ISR only through an election.
func TestSetISRMarksFencedReplicas(t *testing.T) {
	recorded := []placement.InSyncReplica{
		{Broker: 0, Epoch: 3, Directory: "a"}, {Broker: 1, Epoch: 3, Directory: "b"},
		{Broker: 2, Epoch: 3, Directory: "c"},
		{Broker: 3, Epoch: 3, Directory: "d"},
	}
	up := map[int32]Broker{
		0: {ID: 0, Epoch: 4, CleanEpoch: -1, Directory: "a"},
		1: {ID: 1, Epoch: 4, CleanEpoch: -1, Directory: "b"},
		3: {ID: 3, Epoch: 4, CleanEpoch: 3, Directory: "d"},
	}
	p := &Partition{ISR: []int32{9}, Fenced: []InSync{{Broker: 9}}}
	p.SetISR(0, recorded, up)
	want := &Partition{ISR: []int32{0, 1, 2, 3}, ISREpochs: []int64{3, 3, 3, 3},
		Fenced: []InSync{{Broker: 1, Epoch: 3}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

// TestSetISRMarksLostRecords checks that the records of a partition without a leader count as lost
// if every in-sync replica has lost its log, or has returned with another disk. A broker that is
// down, or that has stopped uncleanly, may still have them.
func TestSetISRMarksLostRecords(t *testing.T) {
	kept := placement.InSyncReplica{Broker: 0, Epoch: 3, Directory: "a"}
	moved := placement.InSyncReplica{Broker: 1, Epoch: 3, Directory: "b"}
	alone := placement.Partition{Replicas: []int32{2}, Leader: 2,
		ReplicaIncarnations: map[int32]string{2: "i"},
		ISR:                 []placement.InSyncReplica{{Broker: 2, Epoch: 3, Directory: "c"}}}
	lost := placement.LoseLog(alone, 2, "i", "id").ISR[0]
	absent := placement.InSyncReplica{Broker: 3, Epoch: 3, Directory: "d"}
	up := map[int32]Broker{0: {ID: 0, Epoch: 4, CleanEpoch: -1, Directory: "a"},
		1: {ID: 1, Epoch: 4, CleanEpoch: -1, Directory: "z"},
		2: {ID: 2, Epoch: 4, CleanEpoch: 3, Directory: "c"}}
	for name, test := range map[string]struct {
		leader int32
		isr    []placement.InSyncReplica
		want   bool
	}{
		"lost log":                 {NoBroker, []placement.InSyncReplica{lost}, true},
		"other disk":               {NoBroker, []placement.InSyncReplica{moved}, true},
		"both":                     {NoBroker, []placement.InSyncReplica{lost, moved}, true},
		"unclean stop":             {NoBroker, []placement.InSyncReplica{kept}, false},
		"another may have them":    {NoBroker, []placement.InSyncReplica{lost, kept}, false},
		"another is down":          {NoBroker, []placement.InSyncReplica{lost, absent}, false},
		"never elected":            {NoBroker, nil, false},
		"accepted: a leader leads": {2, []placement.InSyncReplica{lost}, false},
	} {
		p := &Partition{RecordsLost: !test.want}
		p.SetISR(test.leader, test.isr, up)
		if p.RecordsLost != test.want {
			t.Errorf("%s: got %t", name, p.RecordsLost)
		}
	}
}
