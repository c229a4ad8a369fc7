package election

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// TestTopicThatIsDeliveredLateIsElected checks that a Topic queues the set with its entry, and no
// other set, if the watch of Topics delivers the Topic only after the set was delivered.
func TestTopicThatIsDeliveredLateIsElected(t *testing.T) {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "orders",
		UID: "0190a6f2-0000-4000-8000-000000000001"},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 40}}
	set := func(number int32, entry string) *v1alpha1.PartitionSet {
		return &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
			Name: v1alpha1.PartitionSetName("main", number)},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "main", Index: number,
				Count:       v1alpha1.PartitionSets,
				Assignments: map[string]string{entry: "0,1 " + sets.Tag(topic.UID)}}}
	}
	key := partitionset.Key{Topic: "orders", Index: 17} // second partition of its set
	number := partitionset.Number(key, v1alpha1.PartitionSets)
	own, other := set(number, key.String()), set((number+1)%v1alpha1.PartitionSets, "payments/0")
	r, c := newReconciler(t, interceptor.Funcs{}, own, other)
	elect := func(name types.NamespacedName) map[string]string {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		after := &v1alpha1.PartitionSet{}
		if err := c.Get(t.Context(), name, after); err != nil {
			t.Fatal(err)
		}
		return after.Status.Partitions
	}
	if got := elect(client.ObjectKeyFromObject(own)); len(got) > 0 {
		t.Fatalf("without the Topic: got %v, want no state", got)
	}
	if err := c.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if !changesElections.Create(event.CreateEvent{Object: topic}) {
		t.Fatal("the Topic was ignored")
	}
	requests := r.ofTopic(t.Context(), topic)
	if len(requests) != 1 || requests[0].Name != own.Name {
		t.Fatalf("got %v, want only the set of the partition", requests)
	}
	if got := elect(requests[0].NamespacedName); got[key.String()] == "" {
		t.Errorf("with the Topic: got %v, want a state", got)
	}
}

// TestDeletedSetIsForgotten checks that the operator stores nothing about a deleted set, and
// nothing about the brokers of a LogCluster without sets.
func TestDeletedSetIsForgotten(t *testing.T) {
	set := func(cluster string, number int32) *v1alpha1.PartitionSet {
		return &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
			Name: v1alpha1.PartitionSetName(cluster, number), UID: "uid"},
			Spec: v1alpha1.PartitionSetSpec{Cluster: cluster, Index: number,
				Count:       v1alpha1.PartitionSets,
				Assignments: map[string]string{"orders/0": "0,1 tag"}}}
	}
	first, second, other := set("main", 0), set("main", 1), set("other", 0)
	r, c := newReconciler(t, interceptor.Funcs{}, first, second, other)
	reconcile := func(set *v1alpha1.PartitionSet) {
		t.Helper()
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range []*v1alpha1.PartitionSet{first, second, other} {
		reconcile(set)
	}
	for _, step := range []struct {
		set  *v1alpha1.PartitionSet
		want int // number of stored brokers of both LogClusters
	}{{first, 4}, {second, 2}, {other, 0}} {
		decoded := r.Sets.Decode(t.Context(), step.set)
		if err := c.Delete(t.Context(), step.set); err != nil {
			t.Fatal(err)
		}
		reconcile(step.set)
		if got := len(r.settling.brokers); got != step.want {
			t.Errorf("after the deletion of %s: %d brokers are known, want %d", step.set.Name, got,
				step.want)
		}
		if _, known := r.memories.Get(client.ObjectKeyFromObject(step.set)); known {
			t.Errorf("the memory of %s remains", step.set.Name)
		}
		if r.Sets.Decode(t.Context(), step.set) == decoded {
			t.Errorf("the decoded content of %s remains", step.set.Name)
		}
	}
}
