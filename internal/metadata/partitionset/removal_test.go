package partitionset

import (
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestRemovedFromRemovesTheLastReplicaWithTheState checks that the state is removed with the last
// replica. A report with another topic id, about a partition that is only retained, or from a
// broker without a replica, must change nothing.
func TestRemovedFromRemovesTheLastReplicaWithTheState(t *testing.T) {
	key := Key{Topic: "orders"}
	decode := func(reclaim string) *Set {
		t.Helper()
		s, faults := Decode(&v1alpha1.PartitionSet{
			Spec: v1alpha1.PartitionSetSpec{Assignments: map[string]string{
				"orders/0": "0,1,2 abcdefgh " + reclaim}},
			Status: v1alpha1.PartitionSetStatus{Partitions: map[string]string{
				"orders/0": "-@4 0:7,1:9,2 k3f9x2ab 5"}}}, nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return s
	}
	kept := decode("retained")
	kept.RemovedFrom(key, "abcdefgh", 0)
	s := decode("remove")
	s.RemovedFrom(key, "another1", 0)
	s.RemovedFrom(key, "abcdefgh", 3)
	if kept.StatusChanged() || s.StatusChanged() {
		t.Error("a report that does not apply has changed the state")
	}
	if got := s.Retained(); len(got) != 1 || !got[0].Removing || got[0].Tag != "abcdefgh" {
		t.Errorf("retained: %+v", got)
	}
	for broker, want := range []string{"-@4? 1:9,2 k3f9x2ab 6", "-@4? 2 k3f9x2ab 7", ""} {
		s.RemovedFrom(key, "abcdefgh", int32(broker))
		got := ""
		if entry, _ := s.Get(key); entry.State != nil {
			got = entry.State.format()
		}
		if got != want {
			t.Errorf("without broker %d: state %q, want %q", broker, got, want)
		}
	}
}
