package laststatus

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

var name = types.NamespacedName{Namespace: "logs", Name: "main-3"}

func newSet(uid types.UID) *v1alpha1.PartitionSet {
	return &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace,
		Name: name.Name, UID: uid}}
}

// TestStatusIsRestoredOnce checks that a deleted set's status is restored without leaders and with
// later leader epochs, unless the status was written since the set was created again.
func TestStatusIsRestoredOnce(t *testing.T) {
	last := v1alpha1.PartitionSetStatus{
		Partitions: map[string]string{"orders/3": "1@7 0,1:4,2:5 mZ81 12",
			"orders/19": "-@3? 2:5 i 4 dir=old", "orders/35": "not an entry"},
		Directories: map[string]string{"1:4": "disk-1", "2:5": "disk-2"},
	}
	set := newSet("b")
	if err := partitionset.Remember(set, v1alpha1.PartitionSetStatus{}); err != nil ||
		set.Annotations != nil {
		t.Errorf("without partitions: got annotations %v, error %v, want none", set.Annotations, err)
	}
	if restored, err := Restored(set); restored != set || err != nil {
		t.Errorf("without an annotation: got %v, %v, want the set itself", restored, err)
	}
	if err := partitionset.Remember(set, last); err != nil {
		t.Fatal(err)
	}
	object, err := Restored(set)
	if err != nil {
		t.Fatal(err)
	}
	restored, _ := partitionset.Decode(object, nil)
	entry, _ := restored.Get(partitionset.Key{Topic: "orders", Index: 3})
	s := entry.State
	if len(s.ISR) != 2 {
		t.Fatalf("got ISR %+v, want both in-sync replicas", s.ISR)
	}
	if s.Leader != placement.NoLeader || s.LeaderEpoch != 8 {
		t.Errorf("got leader %d in epoch %d, want none in epoch 8", s.Leader, s.LeaderEpoch)
	}
	if got := s.ISR[1].Directory; got != "disk-2" {
		t.Errorf("got directory %q of the second in-sync replica, want disk-2", got)
	}
	if s.LeaderDirectory != "disk-1" {
		t.Errorf("got directory %q of the leader, want disk-1", s.LeaderDirectory)
	}
	if s.Serving || s.Changes != 13 {
		t.Errorf("got serving %t, %d changes, want a 13th change, not served", s.Serving, s.Changes)
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

// at returns a set with the given resource version.
func at(uid types.UID, version string) *v1alpha1.PartitionSet {
	set := newSet(uid)
	set.ResourceVersion = version
	return set
}

// expectLast checks the cache's information about the set. uid is empty if the cache has no last
// version.
func expectLast(t *testing.T, cache *Cache, what string, uid types.UID, known bool) {
	t.Helper()
	last, ok := cache.Last(name)
	if ok != known || (last == nil) != (uid == "") || last != nil && last.UID != uid {
		t.Errorf("%s: got %v, known %t; want UID %q, %t", what, last, ok, uid, known)
	}
}

func TestCacheKnowsTheLastVersionOfADeletedSet(t *testing.T) {
	var cache Cache
	expectLast(t, &cache, "never observed", "", true)
	cache.Observe(at("a", "9"))
	expectLast(t, &cache, "the event of the deletion has not arrived", "", false)
	cache.store(at("a", "10"))
	expectLast(t, &cache, "deleted", "a", true)
	cache.Observe(at("a", "9"))
	expectLast(t, &cache, "deleted during a pass", "a", true)
	cache.Observe(at("b", "11"))
	expectLast(t, &cache, "created again and deleted", "", false)
	cache.store(at("b", "12"))
	expectLast(t, &cache, "deleted twice", "b", true)
	cache.store(at("c", "11"))
	expectLast(t, &cache, "the event of an earlier deletion", "b", true)
	cache.Forget(name)
	expectLast(t, &cache, "forgotten", "", true)
}

// TestEventsNeedNoPass checks that the last version of a set is found whatever the order of passes
// and events is. A set can be deleted and created again between two passes, and a pass can observe
// a set before the events of earlier sets are handled.
func TestEventsNeedNoPass(t *testing.T) {
	var cache Cache
	events := cache.Handler(handler.Funcs{})
	created := func(set *v1alpha1.PartitionSet) {
		events.Create(t.Context(), event.CreateEvent{Object: set}, nil)
	}
	deleted := func(set *v1alpha1.PartitionSet) {
		events.Delete(t.Context(), event.DeleteEvent{Object: set}, nil)
	}
	cache.Observe(at("a", "1"))
	deleted(at("a", "2"))
	created(at("b", "3"))
	deleted(at("b", "4"))
	expectLast(t, &cache, "created and deleted between two passes", "b", true)
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: at("b", "3"), ObjectNew: at("c", "6")},
		nil)
	deleted(at("c", "7"))
	expectLast(t, &cache, "created while the watch was interrupted", "c", true)

	cache.Observe(at("e", "10"))
	created(at("d", "8"))
	expectLast(t, &cache, "an earlier event after a pass", "", false)
	deleted(at("d", "9"))
	expectLast(t, &cache, "an earlier deletion after a pass", "", false)
	created(at("e", "10"))
	deleted(at("e", "11"))
	expectLast(t, &cache, "all events handled", "e", true)
}

// TestVersionsMayGoBack covers a restore of etcd from a backup: resource versions, also those of
// sets created later, are then lower than the ones observed before.
func TestVersionsMayGoBack(t *testing.T) {
	var cache Cache
	cache.Observe(at("a", "1000"))
	cache.Observe(at("a", "500"))
	cache.store(at("a", "510"))
	cache.Observe(at("b", "520"))
	cache.store(at("b", "530"))
	expectLast(t, &cache, "restored from a backup", "b", true)
}
