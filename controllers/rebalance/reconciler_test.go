package rebalance

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// TestNothingIsDecidedWhileSetsAreMissing checks that condition Drained does not become True while
// a PartitionSet is missing, because a drained broker may have replicas of its partitions.
func TestNothingIsDecidedWhileSetsAreMissing(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "logs", Name: "main"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3, Drain: []int32{1}}}
	objects := []client.Object{cluster}
	for number := range int32(v1alpha1.PartitionSets - 1) {
		objects = append(objects, &v1alpha1.PartitionSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "logs",
				Name: v1alpha1.PartitionSetName("main", number)},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "main", Index: number,
				Count: v1alpha1.PartitionSets}})
	}
	c := fakeapi.Builder(t, objects...).
		WithStatusSubresource(cluster).
		WithIndex(&v1alpha1.PartitionSet{}, index.ByCluster, func(set client.Object) []string {
			return []string{set.(*v1alpha1.PartitionSet).Spec.Cluster}
		}).Build()
	r := &Reconciler{Client: c, Sets: sets.NewReader(c)}
	key := client.ObjectKeyFromObject(cluster)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter != setsAgain {
		t.Errorf("got %+v, error %v, want another attempt after %s", result, err, setsAgain)
	}
	if err := c.Get(t.Context(), key, cluster); err != nil {
		t.Fatal(err)
	}
	if got := meta.FindStatusCondition(cluster.Status.Conditions,
		v1alpha1.ConditionDrained); got != nil {
		t.Errorf("got condition %+v, want none", got)
	}
}
