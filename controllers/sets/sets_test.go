package sets

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

func TestOnlyTopicsOfChangedEntriesAreQueued(t *testing.T) {
	before := &v1alpha1.PartitionSet{
		Spec: v1alpha1.PartitionSetSpec{Assignments: map[string]string{"kept/0": "0 a",
			"moved/3": "0 a", "gone/1": "0 a"}},
		Status: v1alpha1.PartitionSetStatus{Partitions: map[string]string{"kept/0": "0@1 0:1 i 1",
			"elected/7": "0@1 0:1 i 1", "no key": "x"}},
	}
	after := before.DeepCopy()
	after.Spec.Assignments["moved/3"] = "1 a"
	delete(after.Spec.Assignments, "gone/1")
	after.Spec.Assignments["new/2"] = "2 b"
	after.Status.Partitions["elected/7"] = "0@2 0:2 i 2"
	after.Status.Partitions["no key"] = "y"
	got := slices.Sorted(maps.Keys(changedTopics(before, after)))
	if want := []string{"elected", "gone", "moved", "new"}; !slices.Equal(got, want) {
		t.Errorf("got topics %v, want %v", got, want)
	}
}

func TestVersionIsDecodedOnce(t *testing.T) {
	r := NewReader(nil)
	set := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Name: "main-0", UID: "1",
		ResourceVersion: "7"},
		Spec: v1alpha1.PartitionSetSpec{Assignments: map[string]string{"orders/0": "0 a"}}}
	first := r.Decode(t.Context(), set)
	if again := r.Decode(t.Context(), set); again != first {
		t.Error("the same version was decoded twice")
	}
	set.Spec.Assignments["orders/16"] = "1 a"
	set.ResourceVersion = "8"
	entry, _ := r.Decode(t.Context(), set).Get(partitionset.Key{Topic: "orders", Index: 16})
	if entry.Assignment == nil {
		t.Error("a later version was not decoded")
	}
	r.Forget(client.ObjectKeyFromObject(set))
	set.UID = "2" // created again; the API server can choose any version
	set.Spec.Assignments = nil
	if !r.Decode(t.Context(), set).Empty() {
		t.Error("the content of a deleted set was used for another one")
	}
}
