package httpport

import (
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// TestReasons checks that the reported reason is the worst one that applies to a partition.
func TestReasons(t *testing.T) {
	id := logstore.PartitionID{Topic: "a"}
	led := map[logstore.PartitionID]replica.State{id: {Lags: map[int32]int64{1: 3, 2: 8}}}
	three, none := []int32{0, 1, 2}, map[logstore.PartitionID]replica.State{}
	for name, test := range map[string]struct {
		p    metadata.Partition
		led  map[logstore.PartitionID]replica.State
		lag  int64 // -1: unknown
		want string
	}{
		"in sync":       {metadata.Partition{ISR: three}, led, 8, ""},
		"led elsewhere": {metadata.Partition{ISR: three}, nil, -1, ""},
		"no leader":     {metadata.Partition{Leader: -1, ISR: three}, nil, -1, "LeaderOffline"},
		"records lost": {metadata.Partition{Leader: -1, ISR: three[:1], RecordsLost: true}, nil, -1,
			"ReplicaLost"},
		"does not serve": {metadata.Partition{ISR: three}, none, -1, "LeaderStarting"},
		"below minimum": {metadata.Partition{ISR: three[:1], Target: three}, led, 8,
			"UnderMinInSyncReplicas"},
		"reassignment":    {metadata.Partition{ISR: three[:2], Target: three}, led, 8, "Reassigning"},
		"one out of sync": {metadata.Partition{ISR: three[:2]}, led, 8, "UnderReplicated"},
	} {
		test.p.Replicas = three
		lag, reason := Brokers(nil).replication(&test.p, 2, test.led, id)
		if reason != test.want || (lag == nil) != (test.lag < 0) || lag != nil && *lag != test.lag {
			t.Errorf("%s: got lag %v and reason %q, want %d, %q", name, lag, reason, test.lag,
				test.want)
		}
	}
}
