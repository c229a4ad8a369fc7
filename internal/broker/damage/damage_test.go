package damage

import (
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func TestOnlyAReplicaThatIsNotNeededStopsForDamage(t *testing.T) {
	settings := topicconfig.Default()
	settings.MinInSyncReplicas = 2
	fenced := []metadata.InSync{{Broker: 1}}
	image := metadata.NewImage("c", metadata.CleanerBudget{},
		[]metadata.Broker{{ID: 0}, {ID: 1}, {ID: 2}},
		[]*metadata.Topic{{Name: "t", Settings: settings, Partitions: []*metadata.Partition{
			{Leader: 1, ISR: []int32{0, 1, 2}},
			{Leader: 1, ISR: []int32{1, 2}}, // a replica that is not in sync
			{Leader: 0, ISR: []int32{0, 1, 2}},
			{Leader: 1, ISR: []int32{0, 1}},
			{Leader: 1, ISR: []int32{0, 1, 3}},
			{Leader: 2, ISR: []int32{0, 1, 2}, Fenced: fenced},
			{Leader: 0, ISR: []int32{0}},
		}}})
	for partition, want := range []bool{true, true, true, false, false, false, false, false} {
		id := logstore.PartitionID{Topic: "t", Index: int32(partition)}
		if got := dispensable(image, id, 0); got != want {
			t.Errorf("partition %d: got %v, want %v", partition, got, want)
		}
	}
	if dispensable(image, logstore.PartitionID{Topic: "unknown"}, 0) {
		t.Error("a replica of an unknown topic is dispensable")
	}
}
