package laststatus

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// TestRestoreRequiresAValidStatusOfANewPartition: without one, and after an election, Restore
// changes nothing.
func TestRestoreRequiresAValidStatusOfANewPartition(t *testing.T) {
	partition := &v1alpha1.Partition{Status: v1alpha1.PartitionStatus{Leader: -1}}
	if err := Annotate(partition, v1alpha1.PartitionStatus{Leader: -1}); err != nil ||
		partition.Annotations != nil {
		t.Errorf("a partition without an election is annotated %v, error %v", partition.Annotations,
			err)
	}
	for _, text := range []string{"", "{", "{}",
		`{"leader":0,"leaderEpoch":-1,"isr":[{"broker":0}]}`, `{"leader":0,"leaderEpoch":3}`} {
		partition.Annotations = map[string]string{v1alpha1.AnnotationRemembered: text}
		if got := Restore(partition); got != partition {
			t.Errorf("%q: %+v", text, got.Status)
		}
	}
	partition.Annotations[v1alpha1.AnnotationRemembered] = `{"leader":0,"leaderEpoch":3,"isr":[{"broker":0,"brokerEpoch":1}]}`
	if got := Restore(partition).Status; got.Leader != placement.NoLeader ||
		got.LeaderEpoch != 4 || len(got.ISR) != 1 {
		t.Errorf("%+v", got)
	}
	partition.Status.LeaderEpoch = 1
	if got := Restore(partition); got != partition {
		t.Errorf("after an election: %+v", got.Status)
	}
}

func TestCacheRetainsSelectedStatuses(t *testing.T) {
	var cache Cache
	topic := types.NamespacedName{Namespace: "logs", Name: "orders"}
	for uid, epoch := range map[types.UID]int32{"a": 1, "b": 2} {
		partition := &v1alpha1.Partition{Spec: v1alpha1.PartitionSpec{Topic: "orders"}}
		partition.Namespace, partition.UID, partition.Status.LeaderEpoch = "logs", uid, epoch
		cache.store(partition)
	}
	cache.Retain(topic, func(uid types.UID) bool { return uid == "b" })
	if _, ok := cache.Get(topic, "a"); ok {
		t.Error("status a was not selected and is still cached")
	}
	if status, ok := cache.Get(topic, "b"); !ok || status.LeaderEpoch != 2 {
		t.Errorf("status b: %+v, %t", status, ok)
	}
	cache.Retain(topic, func(types.UID) bool { return false })
	if len(cache.mu.statuses) != 0 {
		t.Errorf("%d topics are cached, want none", len(cache.mu.statuses))
	}
}
