package metadata

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/placement"
)

// TestSetISRMarksFencedReplicas: all four replicas are in the recorded ISR with broker epoch 3.
// Broker 0 leads, 1 has restarted uncleanly, 2 is down, and 3 has restarted after a clean shutdown.
// Only replica 1 is fenced: broker 2 may return with all of its records, and a leader leaves the
// ISR only through an election.
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
