package rebalance

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// TestPlanInput checks that a plan uses the measured sizes of volumes where they are known,
// including other files. Partitions on removed brokers are left to the assignment controller.
func TestPlanInput(t *testing.T) {
	cluster := &v1alpha1.LogCluster{}
	cluster.Spec.Brokers = 3
	cluster.Spec.Cordoned, cluster.Spec.Drain = []int32{0}, []int32{2}
	cluster.Spec.Storage.Size = resource.MustParse("1000")
	cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 0}, {ID: 1, Volume: &v1alpha1.BrokerVolume{
		Pressure: v1alpha1.PressureReject, TotalBytes: 2000, UsedPercent: 50}}}
	partition := func(replicas ...int32) balance.Partition {
		return balance.Partition{Topic: "t", Replicas: replicas}
	}
	stored := map[int32]int64{0: 300, 1: 400}
	in := PlanInput(cluster, map[int32]string{0: "a", 1: "b"}, stored,
		map[int32]int64{0: 350, 1: 400}, []balance.Partition{partition(0, 1), partition(1, 4)})
	want := []balance.Broker{
		{ID: 0, Rack: "a", Capacity: 1000, Other: 50, Cordoned: true},
		{ID: 1, Rack: "b", Capacity: 2000, Other: 600, Cordoned: true},
		{ID: 2, Capacity: 1000, Draining: true},
		{ID: 4, Capacity: 1000, Draining: true, Removed: true},
	}
	if !reflect.DeepEqual(in.Brokers, want) {
		t.Errorf("brokers\n%+v, want\n%+v", in.Brokers, want)
	}
	if in.Partitions[0].Fixed || !in.Partitions[1].Fixed {
		t.Errorf("fixed %t and %t, want only the partition with a replica on a removed broker",
			in.Partitions[0].Fixed, in.Partitions[1].Fixed)
	}
	if got := CapacityPercent(cluster); got != 80 {
		t.Errorf("moves may fill %d %%, want 80", got)
	}
	cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	in = PlanInput(cluster, map[int32]string{0: "a"}, stored, stored, nil)
	if in.Brokers[0].Rack != "a" || CapacityPercent(cluster) != 80 || in.AnywayPercent != 91 {
		t.Errorf("rack %q, %d %%, %d %% anyway, want limits that only blocked replicas may exceed",
			in.Brokers[0].Rack, CapacityPercent(cluster), in.AnywayPercent)
	}
	cluster.Spec.Drain = nil
	if in = PlanInput(cluster, nil, stored, stored, nil); in.AnywayPercent != 0 {
		t.Errorf("without a drain, replicas may fill a disk to %d %%", in.AnywayPercent)
	}
}
