package metadata

import (
	"reflect"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// TestInSyncColumnMatchesTheISR: RecordPlaced and RecordISR both keep the printed column InSync
// equal to the ISR, and PlacedPartition reads back what RecordPlaced wrote.
func TestInSyncColumnMatchesTheISR(t *testing.T) {
	placed := placement.Partition{Replicas: []int32{2, 0, 11}, Leader: 2, LeaderEpoch: 3,
		LeaderDirectory: "disk"}
	for want, isr := range map[string][]placement.InSyncReplica{
		"":  nil,
		"2": {{Broker: 2, Epoch: 4, Directory: "disk"}},
		"0,2,11": {{Broker: 0, Epoch: 1, Directory: "other"},
			{Broker: 2, Epoch: 4, Directory: "disk"}, {Broker: 11, Epoch: 9}},
	} {
		placed.ISR = isr
		p := &v1alpha1.Partition{Status: v1alpha1.PartitionStatus{InSync: "9"}}
		RecordPlaced(&p.Status, placed)
		if p.Status.InSync != want || len(p.Status.ISR) != len(isr) ||
			(len(isr) == 0) != (p.Status.ISR == nil) {
			t.Errorf("ISR %+v is written as column %q, ISR %+v", isr, p.Status.InSync, p.Status.ISR)
		}
		if read := PlacedPartition(p); !reflect.DeepEqual(read, placed) {
			t.Errorf("PlacedPartition: got %+v, want %+v", read, placed)
		}
		RecordISR(&p.Status, p.Status.ISR[:0])
		if p.Status.InSync != "" || p.Status.ISR != nil {
			t.Errorf("an empty ISR is written as %+v", p.Status)
		}
	}
}
