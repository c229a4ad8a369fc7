package rebalance

import (
	"maps"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/placement"
)

// TestDrainedBrokersNeedNotReport checks that all brokers except drained ones must report. A broker
// that the last round did not poll has not reported.
func TestDrainedBrokersNeedNotReport(t *testing.T) {
	spec := &v1alpha1.LogClusterSpec{Brokers: 3, Drain: []int32{1}}
	for name, test := range map[string]struct {
		latest *reports.Cluster
		want   bool
		silent []int32
	}{
		"none":     {nil, false, []int32{0, 1, 2}},
		"all":      {&reports.Cluster{Polled: 3}, true, nil},
		"drained":  {&reports.Cluster{Polled: 3, Silent: []int32{1}}, true, []int32{1}},
		"other":    {&reports.Cluster{Polled: 3, Silent: []int32{1, 2}}, false, []int32{1, 2}},
		"removed":  {&reports.Cluster{Polled: 4, Silent: []int32{3}}, true, []int32{3}},
		"new ones": {&reports.Cluster{Polled: 2}, false, []int32{2}},
	} {
		missing := silent(test.latest, spec)
		if got := reported(missing, spec); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
		if got := slices.Sorted(maps.Keys(missing)); !slices.Equal(got, test.silent) {
			t.Errorf("%s: brokers %v are silent, want %v", name, got, test.silent)
		}
	}
}

// TestDrainedBrokerMayBeDown checks that a drained broker that is down is no obstacle, because its
// replicas are copied from other brokers.
func TestDrainedBrokerMayBeDown(t *testing.T) {
	in := &input{Input: rebalance.Input{Cluster: &v1alpha1.LogCluster{}, Down: map[int32]bool{}}}
	in.Cluster.Spec.Drain = []int32{1}
	in.addState(0, placement.BrokerState{Liveness: placement.Up})
	in.addState(1, placement.BrokerState{Liveness: placement.Down})
	if in.Obstacle != "" || !maps.Equal(in.Down, map[int32]bool{1: true}) {
		t.Errorf("got %q and %v", in.Obstacle, in.Down)
	}
	in.addState(2, placement.BrokerState{Liveness: placement.Up, Leaving: true})
	if in.Obstacle != "Broker 2 is not up." || !in.Down[2] {
		t.Errorf("got %q and %v", in.Obstacle, in.Down)
	}
}

// TestAllReplicasAreCounted checks that all replicas are counted, even those of partitions without
// a state, which no run moves.
func TestAllReplicasAreCounted(t *testing.T) {
	object := &v1alpha1.PartitionSet{
		Spec: v1alpha1.PartitionSetSpec{Assignments: map[string]string{"orders/0": "0,1 a",
			"orders/1": "1,2 a", "orders/2": "not an assignment", "deleted/0": "0,1 b",
			"deleted/1": "not an assignment", "kept/0": "0,1 c retained", "kept/1": "1,2 c retained",
			"kept/2": "1,2 c remove"}},
	}
	content, faults := partitionset.Decode(object, nil)
	cluster := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{Drain: []int32{0}}}
	in := &input{Input: rebalance.Input{Cluster: cluster, Held: map[int32]int{}},
		sets: &sets.Cluster{Count: 1, Sets: map[int32]*partitionset.Set{0: content}}}
	in.count(map[string]string{"orders": "a"})
	if want := map[int32]int{0: 1, 1: 2, 2: 1}; !maps.Equal(in.Held, want) || len(faults) != 2 {
		t.Errorf("got %v, want %v (faults: %v)", in.Held, want, faults)
	}
	if in.Retained != 1 {
		t.Errorf("%d retained partitions on drained brokers, want 1", in.Retained)
	}
	decision := rebalance.Decision{Drained: rebalance.Drained{Requested: []int32{0}, Retained: 1}}
	if message := drainedCondition(&decision).Message; message != "Brokers [0] hold no replicas. "+
		"Their volumes have records of 1 retained partitions of deleted topics, which do not move." {
		t.Errorf("message %q", message)
	}
	if !slices.Equal(in.Invalid, []string{"orders/2"}) {
		t.Errorf("the invalid entries are %v", in.Invalid)
	}
}
