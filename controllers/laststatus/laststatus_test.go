package laststatus

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

var name = types.NamespacedName{Namespace: "logs", Name: "main-3"}

func newSet(uid types.UID) *v1alpha1.PartitionSet {
	return &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace,
		Name: name.Name, UID: uid}}
}

// TestStatusIsRestoredOnce: the status of a deleted set is restored without leaders and with later
// leader epochs, unless the status was written since the set was created again.
func TestStatusIsRestoredOnce(t *testing.T) {
	last := v1alpha1.PartitionSetStatus{
		Partitions: map[string]string{"orders/3": "1@7 0,1:4,2:5 mZ81 12",
			"orders/19": "-@3? 2:5 - 4 dir=old", "orders/35": "not an entry"},
		Directories: map[string]string{"1:4": "disk-1", "2:5": "disk-2"},
	}
	set := newSet("b")
	if err := Annotate(set, v1alpha1.PartitionSetStatus{}); err != nil || set.Annotations != nil {
		t.Errorf("without partitions: got annotations %v, error %v, want none", set.Annotations, err)
	}
	if restored, err := Restored(set); restored != set || err != nil {
		t.Errorf("without an annotation: got %v, %v, want the set itself", restored, err)
	}
	if err := Annotate(set, last); err != nil {
		t.Fatal(err)
	}
	object, err := Restored(set)
	if err != nil {
		t.Fatal(err)
	}
	restored, _ := partitionset.Decode(object, nil)
	entry, _ := restored.Get(partitionset.Key{Topic: "orders", Index: 3})
	if s := entry.State; s.Leader != placement.NoLeader || s.LeaderEpoch != 8 || len(s.ISR) != 2 ||
		s.ISR[1].Directory != "disk-2" || s.LeaderDirectory != "disk-1" || s.Serving ||
		s.Changes != 13 {
		t.Errorf("got %+v, want no leader, epoch 8 and both in-sync replicas", s)
	}
	entry, _ = restored.Get(partitionset.Key{Topic: "orders", Index: 19})
	if s := entry.State; s.LeaderEpoch != 3 || s.LeaderDirectory != "old" || s.Changes != 4 {
		t.Errorf("got %+v, want the state of a partition without a leader unchanged", s)
	}
	if !restored.Invalid(partitionset.Key{Topic: "orders", Index: 35}) {
		t.Error("the entry that cannot be parsed was lost")
	}
	set.Status.Partitions = map[string]string{"orders/3": "-@8 0,1:4,2:5 mZ81 13"}
	if restored, err := Restored(set); restored != set || err != nil {
		t.Errorf("after a write of the status: got %v, %v, want the set itself", restored, err)
	}
	set.Status.Partitions = nil
	for _, text := range []string{"x", "H4sIAAAAAAAA/w=="} {
		set.Annotations[v1alpha1.AnnotationRemembered] = text
		if _, err := Restored(set); err == nil {
			t.Errorf("annotation %q: got no error", text)
		}
	}
}

func TestCacheKnowsTheLastVersionOfADeletedSet(t *testing.T) {
	var cache Cache
	expect := func(what string, uid types.UID, known bool) {
		t.Helper()
		last, ok := cache.Last(name)
		if ok != known || (last == nil) != (uid == "") || last != nil && last.UID != uid {
			t.Errorf("%s: got %v, known %t; want UID %q, %t", what, last, ok, uid, known)
		}
	}
	expect("never observed", "", true)
	cache.Observe(newSet("a"))
	expect("the event of the deletion has not arrived", "", false)
	cache.store(newSet("a"))
	expect("deleted", "a", true)
	cache.Observe(newSet("b"))
	expect("created again and deleted", "", false)
	cache.store(newSet("b"))
	expect("deleted twice", "b", true)
	cache.Forget(name)
	expect("forgotten", "", true)
}
