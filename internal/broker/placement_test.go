package broker

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestPlacement checks that each broker reports all partitions of the cluster, and the lag of those
// that it leads. After a broker has stopped, its partitions must have another leader and be
// under-replicated.
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
	c.await("two replicas to be in sync", complete("UnderReplicated", 2))
}
