package broker

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// TestPlacement: each broker reports all partitions of the cluster, with the lag of those that it
// leads. After a broker has stopped, its partitions have another leader and are under-replicated.
func TestPlacement(t *testing.T) {
	c := newTrio(t)
	all := Brokers(c.brokers[:])
	complete := func(reason string, inSync int) func() bool {
		return func() bool {
			placement := all.ports().Placement([]string{"rep"})
			return len(placement.Partitions) == 2 && !slices.ContainsFunc(placement.Partitions,
				func(p report.PlacedPartition) bool {
					return p.Reason != reason || p.Lag == nil || *p.Lag != 0 ||
						len(p.Replicas) != 3 || len(p.InSyncReplicas) != inSync
				})
		}
	}
	c.await("all replicas to be in sync", complete("", 3))
	if got := all.ports().Placement([]string{"other"}); len(got.Partitions) != 0 ||
		len(got.Brokers) != 3 ||
		got.Brokers[0].Host != "127.0.0.1" {
		t.Errorf("placement of another topic: %+v", got)
	}
	for _, p := range all[:1].ports().Placement(nil).Partitions {
		if leads := p.Leader == 0; leads != (p.Lag != nil) || p.Reason != "" {
			t.Errorf("broker 0 reports %+v, want a lag only of partitions that it leads", p)
		}
	}
	c.stop(2)
	all = all[:2]
	c.await("two replicas to be in sync", complete(reasonUnderReplicated, 2))
}

// TestReasons: the reason is the worst state of a partition.
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
		lag, reason := portBrokers(nil).replication(&test.p, 2, test.led, id)
		if reason != test.want || (lag == nil) != (test.lag < 0) || lag != nil && *lag != test.lag {
			t.Errorf("%s: got lag %v and reason %q, want %d, %q", name, lag, reason, test.lag,
				test.want)
		}
	}
}
