package kube

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// testSets is the number of PartitionSets in these tests.
const testSets = 2

// orders returns the key of a partition in the Topic orders.
func orders(index int32) partitionset.Key { return partitionset.Key{Topic: "orders", Index: index} }

// emptySets returns the PartitionSets of a new LogCluster.
func emptySets(cluster string) (sets []*v1alpha1.PartitionSet) {
	for index := range int32(testSets) {
		sets = append(sets, &v1alpha1.PartitionSet{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PartitionSetName(cluster, index),
				Labels: map[string]string{v1alpha1.LabelCluster: cluster}},
			Spec: v1alpha1.PartitionSetSpec{Cluster: cluster, Index: index, Count: testSets},
		})
	}
	return sets
}

// setName returns the name of the set that contains a partition of the LogCluster demo.
func setName(key partitionset.Key) string {
	return v1alpha1.PartitionSetName("demo", partitionset.Number(key, testSets))
}

// change changes the set that contains a partition, as the operator would.
func (f *fixture) change(key partitionset.Key, change func(*partitionset.Set)) {
	f.t.Helper()
	for {
		err := f.tryChange(key, change)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) tryChange(key partitionset.Key, change func(*partitionset.Set)) error {
	return f.tryChangeSet(setName(key), change)
}

// tryChangeSet changes the set with the given name. It returns an error after a conflict.
func (f *fixture) tryChangeSet(name string, change func(*partitionset.Set)) error {
	resource := &v1alpha1.PartitionSet{}
	f.get(name, resource)
	set, faults := partitionset.Decode(resource, nil)
	if len(faults) > 0 {
		f.t.Fatal(faults)
	}
	change(set)
	if set.SpecChanged() {
		set.EncodeSpec(resource)
		if err := f.client.Update(f.t.Context(), resource); err != nil {
			return err
		}
	}
	if set.StatusChanged() {
		set.EncodeStatus(resource)
		return f.client.Status().Update(f.t.Context(), resource)
	}
	return nil
}

// entry returns the stored entry of a partition.
func (f *fixture) entry(key partitionset.Key) partitionset.Entry {
	f.t.Helper()
	resource := &v1alpha1.PartitionSet{}
	f.get(setName(key), resource)
	set, faults := partitionset.Decode(resource, nil)
	if len(faults) > 0 {
		f.t.Fatal(faults)
	}
	entry, _ := set.Get(key)
	return entry
}

// state returns the stored state of a partition, which must exist.
func (f *fixture) state(key partitionset.Key) partitionset.State {
	f.t.Helper()
	entry := f.entry(key)
	if entry.State == nil {
		f.t.Fatalf("partition %s has no state", key)
	}
	return *entry.State
}

// assign assigns a partition to brokers.
func (f *fixture) assign(key partitionset.Key, replicas ...int32) {
	f.t.Helper()
	topic := &v1alpha1.Topic{}
	f.get(key.Topic, topic)
	topicID, err := id(topic.UID)
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(key, func(set *partitionset.Set) {
		set.Assign(key, partitionset.Assignment{Replicas: replicas,
			Tag: partitionset.Tag(topicID)})
	})
}

// lead makes a broker the leader of a partition, and the only in-sync replica.
func (f *fixture) lead(key partitionset.Key, leader, leaderEpoch int32, brokerEpoch int64) {
	f.t.Helper()
	f.change(key, func(set *partitionset.Set) {
		entry, _ := set.Get(key)
		placed := placement.Partition{
			Replicas: entry.Placed().Replicas, Leader: leader, LeaderEpoch: leaderEpoch,
			ReplicaIncarnations: map[int32]string{},
			ISR:                 []placement.InSyncReplica{{Broker: leader, Epoch: brokerEpoch}}}
		for _, id := range placed.Replicas {
			placed.ReplicaIncarnations[id] = "i"
		}
		set.PutState(key, partitionset.State{Partition: placed})
	})
}

// note changes a PartitionSet, as another client might, but none of its entries.
func (f *fixture) note(key partitionset.Key) {
	f.t.Helper()
	resource := &v1alpha1.PartitionSet{}
	f.get(setName(key), resource)
	before := resource.DeepCopy()
	resource.Annotations = map[string]string{"note": "after " + resource.ResourceVersion}
	if err := f.client.Patch(f.t.Context(), resource, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

// changeOne makes one ISR change.
func (b *broker) changeOne(change metadata.ISRChange) (result error) {
	b.ChangeISR(b.t.Context(), []metadata.ISRChange{change},
		func(_ int, _ int64, err error) { result = err })
	return result
}

// setOf returns a PartitionSet with one partition of the Topic orders.
func setOf(assignment, state string) *v1alpha1.PartitionSet {
	set := emptySets("demo")[partitionset.Number(orders(0), testSets)]
	set.UID, set.ResourceVersion = "uid", "1"
	if assignment != "" {
		set.Spec.Assignments = map[string]string{"orders/0": assignment}
	}
	if state != "" {
		set.Status.Partitions = map[string]string{"orders/0": state}
	}
	return set
}

// TestSetsAreDecodedOnce checks that each version of a set is decoded only once, and that a set of
// another LogCluster, and a set that contradicts the others, are ignored.
func TestSetsAreDecodedOnce(t *testing.T) {
	var cache decodedSets
	sets := emptySets("demo")
	first := cache.decode("demo", sets)
	again := cache.decode("demo", sets)
	for index := range int32(testSets) {
		if first.byIndex[index] == nil || first.byIndex[index] != again.byIndex[index] {
			t.Errorf("set %d was decoded again", index)
		}
	}
	if !first.complete() || cache.decode("demo", sets[:1]).complete() ||
		cache.decode("demo", nil).complete() {
		t.Error("complete does not report whether all sets exist")
	}
	changed := setOf("0 abcdefgh", "")
	changed.ResourceVersion = "2"
	id := changed.Spec.Index
	sets[id] = changed
	entry, unusable := cache.decode("demo", sets).find(orders(0))
	if entry.Assignment == nil || unusable {
		t.Errorf("after a change: got entry %+v", entry)
	}
	renamed, foreign, third := sets[0].DeepCopy(), sets[0].DeepCopy(), sets[1].DeepCopy()
	renamed.Name, foreign.Spec.Cluster, third.Spec.Count = "demo-7", "other", 3
	got := cache.decode("demo", []*v1alpha1.PartitionSet{renamed, foreign, sets[0], third})
	if len(got.byIndex) != 1 || got.complete() || len(got.faults) != 1 ||
		!strings.Contains(got.faults[0].Error(), "set 1 of 3") {
		t.Errorf("got sets %+v", got)
	}
}

// TestFaultyEntriesAreReportedAndFound checks that an entry that cannot be parsed, and a state
// without an assignment, count as unusable, and not as missing.
func TestFaultyEntriesAreReportedAndFound(t *testing.T) {
	const good = "0@1 0:1 i 1"
	for name, c := range map[string]struct {
		assignment, state string
		unusable          bool
		faults            int
	}{
		"both":                     {"0 abcdefgh", good, false, 0},
		"no state":                 {"0 abcdefgh", "", false, 0},
		"invalid state":            {"0 abcdefgh", "broken", true, 1},
		"word of a later version":  {"0 abcdefgh", good + " later=1", true, 1},
		"invalid assignment":       {"x", good, true, 1},
		"state without assignment": {"", good, true, 0},
		"nothing":                  {"", "", false, 0},
	} {
		got := (&decodedSets{}).decode("demo", []*v1alpha1.PartitionSet{setOf(c.assignment, c.state)})
		if _, unusable := got.find(orders(0)); unusable != c.unusable || len(got.faults) != c.faults {
			t.Errorf("%s: got unusable %t, faults %v", name, unusable, got.faults)
		}
	}
}

// TestRetainedPartitionsAreListed checks that the image contains the retained partitions of all
// sets.
func TestRetainedPartitionsAreListed(t *testing.T) {
	set := setOf("0,1 abcdefgh retained", "-@4? 0:1,1 i 3")
	set.Spec.Assignments["orders/1"] = "1 abcdefgh"
	got := (&decodedSets{}).decode("demo", []*v1alpha1.PartitionSet{set}).retained
	want := []metadata.RetainedPartition{
		{Topic: "orders", Replicas: []int32{0, 1}, LeaderEpoch: 4, Tag: "abcdefgh"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestErrorsOfChanges checks that an error is converted to a conflict only if it proves that
// nothing was written.
func TestErrorsOfChanges(t *testing.T) {
	sets := v1alpha1.GroupVersion.WithResource("partitionsets").GroupResource()
	invalid := apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PartitionSet").GroupKind(),
		"demo-0", nil)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"written":     {nil, false},
		"conflict":    {apierrors.NewConflict(sets, "demo-0", nil), true},
		"not found":   {apierrors.NewNotFound(sets, "demo-0"), true},
		"invalid":     {invalid, true},
		"unreachable": {errors.New("connection reset"), false},
		"timeout":     {apierrors.NewTimeoutError("", 1), false},
		"etcd failed": {apierrors.NewInternalError(errors.New("request timed out")), false},
	} {
		got := isrError(commitError("demo-0", c.err))
		if errors.Is(got, metadata.ErrISRConflict) != c.want || (got == nil) != (c.err == nil) {
			t.Errorf("%s: got error %v", name, got)
		}
	}
}

// writes returns the number of writes of PartitionSets that a broker has made.
func (b *broker) writes() int {
	return int(testutil.ToFloat64(b.metrics.writes.WithLabelValues("written")))
}
