package assignment

import (
	"maps"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// giveUp adds the consent to remove a topic's records.
func (w *world) giveUp(topic *v1alpha1.Topic) v1alpha1.GivenUp {
	g := v1alpha1.GivenUp{Topic: topic.Name, ID: sets.Tag(topic.UID)}
	w.in.cluster.Annotations = map[string]string{v1alpha1.AnnotationRemoveRetained: g.String()}
	return g
}

// removed records that a broker has removed its records of a partition.
func (w *world) removed(topic *v1alpha1.Topic, index, broker int32) {
	key := partitionset.Key{Topic: topic.Name, Index: index}
	set, _ := w.in.sets.Of(key)
	set.RemovedFrom(key, sets.Tag(topic.UID), broker)
}

// retainedTopic returns a deleted Topic with two partitions. Only the first partition had a leader.
func retainedTopic(w *world) *v1alpha1.Topic {
	topic := w.topic("orders", 2, 1)
	topic.Spec.InitialReplicas = []v1alpha1.InitialReplicas{{Partition: 0, Replicas: []int32{0}},
		{Partition: 1, Replicas: []int32{1}}}
	w.pass()
	w.lead("orders", 0)
	w.delete(topic)
	w.pass()
	return topic
}

// TestRetainedRecordsAreRemovedWithConsent checks that a partition's entry is removed after its
// last replica has reported the removal, or at once if the partition has no state.
func TestRetainedRecordsAreRemovedWithConsent(t *testing.T) {
	w := newWorld(3, 4)
	topic := retainedTopic(w)
	w.expect(t, map[string]string{"orders/0": "0 retained", "orders/1": "1 retained"})
	g := w.giveUp(topic)
	if got := w.in.outcome(g); got != waiting {
		t.Errorf("outcome %d before the pass, want waiting", got)
	}
	w.pass()
	if got := w.in.outcome(g); got != began {
		t.Errorf("outcome %d after the pass, want began", got)
	}
	w.pass()
	w.expect(t, map[string]string{"orders/0": "0 remove"})
	w.removed(topic, 0, 2)
	w.expect(t, map[string]string{"orders/0": "0 remove"})
	w.removed(topic, 0, 0)
	w.pass()
	w.expect(t, map[string]string{})
}

// TestConsentIsForOneTopicID checks that a consent removes nothing if it names another topic id, or
// if the Topic was created again.
func TestConsentIsForOneTopicID(t *testing.T) {
	w := newWorld(3, 4)
	topic := retainedTopic(w)
	g := w.giveUp(topic)
	for _, text := range []string{"orders=aaaaaaaa", "orders", "other=" + g.ID, "="} {
		w.in.cluster.Annotations[v1alpha1.AnnotationRemoveRetained] = text
		w.expect(t, map[string]string{"orders/0": "0 retained", "orders/1": "1 retained"})
		if got := w.in.outcome(w.in.cluster.GivenUp()[0]); got != kept {
			t.Errorf("%q: outcome %d, want kept", text, got)
		}
	}
	w.giveUp(topic)
	w.topic("orders", 1, 1) // has only the first partition
	if got := w.in.outcome(g); got != kept {
		t.Errorf("the Topic exists again: outcome %d, want kept", got)
	}
	for range 3 {
		w.pass()
	}
	w.expect(t, map[string]string{"orders/0": "0", "orders/1": "1 retained"})
}

// TestNewTopicWaitsForTheRemoval checks that a Topic that is created during the removal gets new
// partitions once no broker has the old records. The test includes a partition whose removal had
// not begun.
func TestNewTopicWaitsForTheRemoval(t *testing.T) {
	w := newWorld(3, 4)
	topic := retainedTopic(w)
	key := partitionset.Key{Topic: "orders"}
	set, _ := w.in.sets.Of(key)
	given := *w.in.sets.Get(key).Assignment
	given.Reclaim = partitionset.Remove
	set.Assign(key, given) // as if the write to the other PartitionSet had failed
	again := w.topic("orders", 2, 1)
	for range 3 {
		w.pass()
	}
	texts := w.texts()
	if len(texts) != 2 || texts["orders/0"] != "0 remove" || texts["orders/1"] == "1 retained" {
		t.Errorf("got %v, want partition 1 new and partition 0 waiting", texts)
	}
	if e := w.in.sets.Get(partitionset.Key{Topic: "orders", Index: 1}); e.Assignment.Tag !=
		sets.Tag(again.UID) {
		t.Errorf("partition 1: %+v", e.Assignment)
	}
	w.removed(topic, 0, 0)
	for range 2 {
		w.pass()
	}
	e := w.in.sets.Get(key)
	if e.State != nil || e.Assignment == nil || e.Assignment.Tag != sets.Tag(again.UID) {
		t.Errorf("partition 0: %+v, want it new", e)
	}
}

// TestRemovedBrokersAreNotAwaited checks that the removal does not wait for a replica on a broker
// that the LogCluster no longer has.
func TestRemovedBrokersAreNotAwaited(t *testing.T) {
	w := newWorld(3, 1)
	topic := w.topic("orders", 1, 1)
	topic.Spec.InitialReplicas = []v1alpha1.InitialReplicas{{Partition: 0, Replicas: []int32{2}}}
	w.pass()
	w.lead("orders", 0)
	w.delete(topic)
	w.pass()
	w.giveUp(topic)
	w.pass()
	w.expect(t, map[string]string{"orders/0": "2 remove"})
	w.in.cluster.Spec.Brokers = 2
	for range 3 {
		w.pass()
	}
	w.expect(t, map[string]string{})
}

// TestBegunRemovalIsRecognized checks that only the first change of a deleted topic begins a
// removal. Only this change is verified against the API server.
func TestBegunRemovalIsRecognized(t *testing.T) {
	w := newWorld(3, 4)
	topic := retainedTopic(w)
	g := w.giveUp(topic)
	p := newPlan(w.in)
	if len(p.assign) != 2 || !p.begins(p.assign[0]) || !p.begins(p.assign[1]) {
		t.Errorf("%+v, want two changes that begin a removal", p.assign)
	}
	p.begun = maps.Clone(p.begun)
	p.begun[g] = true
	if slices.ContainsFunc(p.assign, p.begins) {
		t.Error("the removal begins twice")
	}
}
