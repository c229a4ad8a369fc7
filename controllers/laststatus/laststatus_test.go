package laststatus

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// TestRestoreRequiresAValidStatusOfANewPartition: Restore changes nothing if the annotation
// contains no valid status, or after an election.
func TestRestoreRequiresAValidStatusOfANewPartition(t *testing.T) {
	partition := &v1alpha1.Partition{Status: v1alpha1.PartitionStatus{Leader: -1}}
	if err := Annotate(partition, v1alpha1.PartitionStatus{Leader: -1}); err != nil ||
		partition.Annotations != nil {
		t.Errorf("partition without an election: got annotations %v, error %v, want none", partition.Annotations,
			err)
	}
	for _, text := range []string{"", "{", "{}",
		`{"leader":0,"leaderEpoch":-1,"isr":[{"broker":0}]}`, `{"leader":0,"leaderEpoch":3}`} {
		partition.Annotations = map[string]string{v1alpha1.AnnotationRemembered: text}
		if got := Restore(partition); got != partition {
			t.Errorf("annotation %q: got status %+v, want it unchanged", text, got.Status)
		}
	}
	partition.Annotations[v1alpha1.AnnotationRemembered] = `{"leader":0,"leaderEpoch":3,"isr":[{"broker":0,"brokerEpoch":1}]}`
	if got := Restore(partition).Status; got.Leader != placement.NoLeader ||
		got.LeaderEpoch != 4 || len(got.ISR) != 1 {
		t.Errorf("got status %+v, want no leader, epoch 4 and an ISR of one", got)
	}
	partition.Status.LeaderEpoch = 1
	if got := Restore(partition); got != partition {
		t.Errorf("after an election: got status %+v, want it unchanged", got.Status)
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
		t.Error("got status a from the cache, want it removed")
	}
	if status, ok := cache.Get(topic, "b"); !ok || status.LeaderEpoch != 2 {
		t.Errorf("status b: got %+v, %t; want leader epoch 2, true", status, ok)
	}
	cache.Retain(topic, func(types.UID) bool { return false })
	if len(cache.mu.statuses) != 0 {
		t.Errorf("got %d cached topics, want none", len(cache.mu.statuses))
	}
}
