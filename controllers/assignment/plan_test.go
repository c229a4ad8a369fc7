package assignment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

// world is a LogCluster with its Topics and PartitionSets. It applies changes to the PartitionSets
// like Reconciler.write.
type world struct {
	in      input
	created int // number of created Topics, for their UIDs and creation times
}

func newWorld(brokers int32, count int32) *world {
	w := &world{in: input{
		cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: brokers}},
		sets: &sets.Cluster{Count: count, Sets: map[int32]*partitionset.Set{}},
	}}
	for number := range count {
		w.in.sets.Sets[number], _ = partitionset.Decode(&v1alpha1.PartitionSet{}, nil)
	}
	return w
}

// topic creates a Topic.
func (w *world) topic(name string, partitions, replicas int32) *v1alpha1.Topic {
	w.created++
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name,
		UID:               types.UID(fmt.Sprintf("%08x-5b1e-4b0e-9b57-1f5a3ad4a1c2", w.created)),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(w.created), 0))},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: partitions,
			TopicSettings: v1alpha1.TopicSettings{Replicas: &replicas}}}
	w.in.topics = append(w.in.topics, topic)
	return topic
}

func (w *world) delete(topic *v1alpha1.Topic) {
	w.in.topics = slices.DeleteFunc(w.in.topics,
		func(t *v1alpha1.Topic) bool { return t == topic })
}

// pass makes one pass.
func (w *world) pass() plan {
	p := newPlan(w.in)
	bySet := map[*partitionset.Set][]assignmentChange{}
	for _, change := range p.assign {
		set, _ := w.in.sets.Of(change.key)
		bySet[set] = append(bySet[set], change)
	}
	for _, key := range p.removed {
		set, _ := w.in.sets.Of(key)
		set.RemoveState(key)
	}
	for _, key := range p.retired {
		set, _ := w.in.sets.Of(key)
		retire(set, key)
	}
	for set, changes := range bySet {
		apply(set, changes)
	}
	return p
}

// lead gives a partition a serving leader.
func (w *world) lead(topic string, index int32) {
	key := partitionset.Key{Topic: topic, Index: index}
	set, _ := w.in.sets.Of(key)
	entry, _ := set.Get(key)
	ids := entry.Assignment.Replicas
	set.PutState(key, partitionset.State{Serving: true, Partition: placement.Partition{
		Replicas: ids, Leader: ids[0], LeaderEpoch: 7,
		ISR: []placement.InSyncReplica{{Broker: ids[0], Epoch: 1}}}})
}

// texts describes the assignments without their tags; a description is like "0,1" or "2 retained".
func (w *world) texts() map[string]string {
	all := map[string]string{}
	for key, entry := range w.in.sets.All() {
		text := "none"
		if a := entry.Assignment; a != nil {
			text = strings.TrimSpace(strings.Trim(strings.ReplaceAll(fmt.Sprint(a.Replicas), " ",
				","), "[]") + " " + string(a.Reclaim))
		}
		all[key.String()] = text
	}
	return all
}

// expect checks the assignments, and checks that another pass changes nothing.
func (w *world) expect(t *testing.T, want map[string]string) {
	t.Helper()
	if got := w.texts(); !maps.Equal(got, want) {
		t.Errorf("got assignments %v, want %v", got, want)
	}
	if p := newPlan(w.in); len(p.assign)+len(p.removed)+len(p.retired) > 0 {
		t.Errorf("another pass would make changes: %+v", p)
	}
}

func TestTopicsAreAssignedInOnePass(t *testing.T) {
	w := newWorld(3, 4)
	w.topic("orders", 3, 2)
	w.topic("wide", 1, 4) // refused: there are three brokers
	placed := w.topic("placed", 3, 1)
	placed.Spec.InitialReplicas = []v1alpha1.InitialReplicas{{Partition: 1, Replicas: []int32{2}}}
	other := w.topic("other", 1, 1)
	other.Spec.TopicName = "orders" // the older Topic already has this name
	w.pass()
	got := w.texts()
	load := map[byte]int{}
	for key, text := range got {
		if strings.HasPrefix(key, "orders/") {
			load[text[0]]++
			load[text[2]]++
		}
	}
	if len(got) != 6 || !maps.Equal(load, map[byte]int{'0': 2, '1': 2, '2': 2}) {
		t.Errorf("got %v, want orders and placed, orders spread evenly", got)
	}
	if got["placed/1"] != "2" {
		t.Errorf("placed/1: got %q, want its initial replicas", got["placed/1"])
	}
	w.expect(t, got)

	// Adding partitions to a Topic moves no existing partition.
	w.in.topics[0].Spec.Partitions = 5
	w.pass()
	for key, text := range w.texts() {
		if before, known := got[key]; known && before != text {
			t.Errorf("%s moved from %s to %s", key, before, text)
		}
	}
	if len(w.texts()) != 8 {
		t.Errorf("got %v, want two more partitions", w.texts())
	}
}

func TestReplicasFollowTopicAndCluster(t *testing.T) {
	w := newWorld(3, 4)
	topic := w.topic("orders", 1, 3)
	w.pass()
	first := w.texts()["orders/0"][:1]
	*topic.Spec.Replicas = 1
	w.pass()
	w.expect(t, map[string]string{"orders/0": first})
	w.in.cluster.Spec.Brokers = 1
	w.pass()
	w.expect(t, map[string]string{"orders/0": "0"})
	*topic.Spec.Replicas = 2 // refused: there is one broker
	w.pass()
	w.expect(t, map[string]string{"orders/0": "0"})
}

// TestRetainedPartitionsAreAdopted checks that a partition of a deleted Topic is retained. A later
// Topic of the same name adopts the partition on the same brokers, once it has no leader.
func TestRetainedPartitionsAreAdopted(t *testing.T) {
	w := newWorld(3, 4)
	topic := w.topic("orders", 2, 1)
	w.pass()
	w.lead("orders", 0)
	before := w.texts()
	w.delete(topic)
	w.pass()
	w.expect(t, map[string]string{"orders/0": before["orders/0"] + " retained",
		"orders/1": before["orders/1"] + " retained"})

	again := w.topic("orders", 1, 1)
	if p := w.pass(); len(p.retired) != 1 {
		t.Errorf("got %+v, want the old leader removed first", p)
	}
	w.pass()
	w.expect(t, map[string]string{"orders/0": before["orders/0"],
		"orders/1": before["orders/1"] + " retained"})
	entry := w.in.sets.Get(partitionset.Key{Topic: "orders"})
	if entry.Assignment.Tag != sets.Tag(again.UID) || entry.State.Leader != placement.NoLeader ||
		entry.State.LeaderEpoch != 8 {
		t.Errorf("got %+v, %+v; want the new Topic's tag and leader epoch 8", entry.Assignment,
			entry.State)
	}
	again.Spec.Partitions = 2
	w.pass()
	w.expect(t, before)
}

// TestStateIsRemovedBeforeTheAssignment checks that the entries of a deleted Topic with
// reclaimPolicy Delete are removed: first the state, then the assignment. After that, a new Topic
// of the same name is assigned like any other.
func TestStateIsRemovedBeforeTheAssignment(t *testing.T) {
	w := newWorld(3, 4)
	topic := w.topic("orders", 1, 1)
	topic.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete
	w.pass()
	w.lead("orders", 0)
	w.delete(topic)
	w.topic("orders", 1, 1)
	key := partitionset.Key{Topic: "orders"}
	if p := w.pass(); !slices.Equal(p.removed, []partitionset.Key{key}) || len(p.assign) > 0 {
		t.Errorf("got %+v, want only the state removed", p)
	}
	if p := w.pass(); len(p.assign) != 1 || p.assign[0].after == nil {
		t.Errorf("got %+v, want the partition assigned", p)
	}
	w.expect(t, w.texts())

	w.delete(w.in.topics[0])
	w.lead("orders", 0)
	w.pass()
	w.expect(t, map[string]string{"orders/0": w.texts()["orders/0"]})
}

func TestReassignmentIsTakenOnceItIsWritten(t *testing.T) {
	w := newWorld(4, 4)
	topic := w.topic("orders", 2, 2)
	w.pass()
	other := w.texts()["orders/1"]
	topic.Annotations = map[string]string{v1alpha1.AnnotationReassign: "0=3,2"}
	if p := w.pass(); len(p.taken) != 0 || len(p.assign) != 1 {
		t.Errorf("got %+v, want one change and the annotation kept", p)
	}
	if p := w.pass(); len(p.taken) != 1 || len(p.assign) != 0 {
		t.Errorf("got %+v, want the annotation taken", p)
	}
	w.expect(t, map[string]string{"orders/0": "3,2", "orders/1": other})
	topic.Annotations[v1alpha1.AnnotationReassign] = "0=3"
	if p := w.pass(); len(p.taken) != 0 {
		t.Errorf("got %+v, want an invalid request kept", p)
	}
	w.expect(t, map[string]string{"orders/0": "3,2", "orders/1": other})
}

// TestChangeIsWrittenOnlyOnItsBase checks that a change is dropped if the entry has changed between
// plan and write. In one case another writer has changed the entry; in the other, an election has
// given a state to a partition that has no assignment.
func TestChangeIsWrittenOnlyOnItsBase(t *testing.T) {
	w := newWorld(3, 1)
	topic := w.topic("orders", 2, 1)
	topic.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete
	w.pass()
	w.delete(topic)
	p := newPlan(w.in)
	if len(p.assign) != 2 {
		t.Fatalf("got %+v, want both assignments removed", p)
	}
	w.lead("orders", 0)
	set := w.in.sets.Sets[0]
	set.Assign(partitionset.Key{Topic: "orders", Index: 1},
		partitionset.Assignment{Replicas: []int32{1}, Tag: "another"})
	apply(set, p.assign)
	if len(w.texts()) != 2 {
		t.Errorf("got %v, want both entries kept", w.texts())
	}
}

// TestPassesConverge creates, deletes, grows and moves Topics at random. It checks that the plan is
// empty after a few passes, that no new partition is assigned to brokers that may have another
// partition's records, and that a partition moves only if its brokers or its number of replicas
// require this.
func TestPassesConverge(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 50 {
		w := newWorld(int32(3+random.IntN(3)), int32(1+random.IntN(4)))
		for range 30 {
			step(w, random)
			before := w.texts()
			brokers := int(w.in.cluster.Spec.Brokers)
			passes := 0
			for ; passes < 5; passes++ {
				if p := w.pass(); len(p.assign)+len(p.removed)+len(p.retired) == 0 {
					break
				}
			}
			if passes == 5 {
				t.Fatalf("five passes did not suffice: %+v", newPlan(w.in))
			}
			for _, topic := range w.in.topics {
				checkAssigned(t, w, topic, brokers, before)
			}
		}
	}
}

// step makes a random change of the Topics or the LogCluster.
func step(w *world, random *rand.Rand) {
	names := []string{"a", "b", "c"}
	name := names[random.IntN(len(names))]
	index := slices.IndexFunc(w.in.topics, func(t *v1alpha1.Topic) bool { return t.Name == name })
	switch {
	case random.IntN(6) == 0:
		w.in.cluster.Spec.Brokers = int32(3 + random.IntN(3))
	case index < 0:
		topic := w.topic(name, int32(1+random.IntN(4)), int32(1+random.IntN(3)))
		topic.Spec.ReclaimPolicy = []v1alpha1.ReclaimPolicy{v1alpha1.ReclaimRetain,
			v1alpha1.ReclaimDelete}[random.IntN(2)]
	case random.IntN(3) == 0:
		w.delete(w.in.topics[index])
	case random.IntN(2) == 0:
		w.in.topics[index].Spec.Partitions++
	default:
		topic := w.in.topics[index]
		w.lead(name, int32(random.IntN(int(topic.Spec.Partitions))))
		*topic.Spec.Replicas = int32(1 + random.IntN(3))
	}
}

func checkAssigned(t *testing.T, w *world, topic *v1alpha1.Topic, brokers int,
	before map[string]string) {
	t.Helper()
	for index := range topic.Spec.Partitions {
		key := partitionset.Key{Topic: topic.Name, Index: index}
		entry := w.in.sets.Get(key)
		if !entry.BelongsTo(sets.Tag(topic.UID)) ||
			len(entry.Assignment.Replicas) != int(*topic.Spec.Replicas) ||
			int(slices.Max(entry.Assignment.Replicas)) >= brokers {
			t.Fatalf("%s: got %+v, want %d replicas on %d brokers", key, entry.Assignment,
				*topic.Spec.Replicas, brokers)
		}
		text, _, _ := strings.Cut(before[key.String()], " ")
		ids := strings.Split(text, ",")
		fits := len(ids) == int(*topic.Spec.Replicas) && text != "" && text != "none" &&
			!slices.ContainsFunc(ids, func(id string) bool { return int(id[0]-'0') >= brokers })
		now, _, _ := strings.Cut(w.texts()[key.String()], " ")
		if fits && now != text && entry.State != nil {
			t.Fatalf("%s with records moved from %s to %s", key, text, now)
		}
	}
}

func TestLentReplicasStay(t *testing.T) {
	w := newWorld(3, 1)
	topic := w.topic("orders", 2, 1)
	w.pass()
	for index := range int32(2) {
		w.lead("orders", index)
	}
	set := w.in.sets.Sets[0]
	home := func() []int32 {
		entry, _ := set.Get(partitionset.Key{Topic: "orders"})
		return entry.Assignment.Replicas[:1]
	}
	lend := func() {
		set.Lend(partitionset.Key{Topic: "orders"}, (home()[0]+1)%3)
	}
	before := w.texts()
	lend()
	if p := newPlan(w.in); len(p.assign) > 0 {
		t.Errorf("a loan is ended: %+v", p.assign)
	}
	set.KeepLent(partitionset.Key{Topic: "orders"})
	w.pass() // the partition now has one replica too many
	w.expect(t, before)

	lend()
	other := (home()[0] + 2) % 3
	topic.Annotations = map[string]string{v1alpha1.AnnotationReassign: fmt.Sprintf("0=%d", other)}
	w.pass()
	before["orders/0"] = fmt.Sprint(other)
	if got := w.texts(); !maps.Equal(got, before) {
		t.Errorf("after a move of a partition with a loan: %v, want %v", got, before)
	}
	topic.Annotations = nil

	lend()
	topic.Spec.Replicas = new(int32(3))
	w.pass()
	if entry, _ := set.Get(partitionset.Key{Topic: "orders"}); len(entry.Assignment.Replicas) != 3 ||
		entry.Lent {
		t.Errorf("with three replicas: %+v, lent %t", entry.Assignment, entry.Lent)
	}
}
