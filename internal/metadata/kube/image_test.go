package kube

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

const clusterUID = "550e8400-e29b-41d4-a716-446655440000"

// uid returns a UUID that ends with a number.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// partitionEntry is a PartitionSet entry in the YAML that parse reads. It belongs to the Topic
// whose resource name is in the key, unless Tag is set.
type partitionEntry struct {
	Kind                     string
	Key, Brokers, State, Tag string
}

// parse reads resources from YAML. A Topic's uid contains its position in the text.
func parse(t *testing.T, text string) resources {
	t.Helper()
	all := resources{name: "demo"}
	var entries []*partitionEntry
	for i, doc := range strings.Split(text, "---\n") {
		meta := metav1.TypeMeta{}
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			t.Fatal(err)
		}
		var into any
		switch meta.Kind {
		case "LogCluster":
			all.cluster = &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{UID: clusterUID}}
			into = all.cluster
		case "Topic":
			topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{UID: uid(i)}}
			all.topics, into = append(all.topics, topic), topic
		case "Partition":
			entry := &partitionEntry{}
			entries, into = append(entries, entry), entry
		default:
			t.Fatalf("kind %q", meta.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			t.Fatal(err)
		}
	}
	all.sets = (&decodedSets{}).decode("demo", parsedSets(t, all.topics, entries))
	return all
}

// parsedSets returns the PartitionSets that contain the given entries.
func parsedSets(t *testing.T, topics []*v1alpha1.Topic,
	entries []*partitionEntry) []*v1alpha1.PartitionSet {
	t.Helper()
	sets := emptySets("demo")
	for _, entry := range entries {
		key, err := partitionset.ParseKey(entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range topics {
			if topic.Name == key.Topic && entry.Tag == "" {
				topicID, _ := id(topic.UID) // TestInvalidUIDs has no entries
				entry.Tag = partitionset.Tag(topicID)
			}
		}
		set := sets[partitionset.Number(key, testSets)]
		if set.Spec.Assignments == nil {
			set.Spec.Assignments = map[string]string{}
			set.Status.Partitions = map[string]string{}
		}
		set.Spec.Assignments[entry.Key] = entry.Brokers + " " + cmp.Or(entry.Tag, "no-topic")
		if entry.State != "" {
			set.Status.Partitions[entry.Key] = entry.State
		}
	}
	return sets
}

// build builds an image from scratch.
func (r resources) build(alive map[int32]metadata.Broker,
	last *metadata.Image) (*metadata.Image, []error) {
	return new(imageCache).image(r, alive, last)
}

// describe formats an image's topics, one per line. A line contains the name, and the replicas,
// leader, leader epoch and ISR of each partition.
func describe(image *metadata.Image) string {
	var text strings.Builder
	for _, topic := range image.Topics {
		fmt.Fprintf(&text, "%s retain=%t", topic.Name, topic.RetainData)
		for i, p := range topic.Partitions {
			if int(p.Index) != i {
				fmt.Fprintf(&text, " INDEX %d AT %d", p.Index, i)
			}
			fmt.Fprintf(&text, " %v:%d@%d%v", p.Replicas, p.Leader, p.LeaderEpoch, p.ISR)
		}
		text.WriteString("\n")
	}
	return text.String()
}

const demo = "kind: LogCluster\nmetadata: {name: demo}\nspec: {topicDefaults: {compression: {type: zstd}}}\n---\n"

// partitionText returns the entry of a partition that is assigned to broker index%3.
func partitionText(topic string, index int, state string) string {
	return fmt.Sprintf("kind: Partition\nkey: %s/%d\nbrokers: \"%d\"\nstate: %q\n", topic, index,
		index%3, state)
}

// TestFaultsHaveAStableOrder checks that the same faults have the same text in each image.
// Otherwise every image would log them again.
func TestFaultsHaveAStableOrder(t *testing.T) {
	text := demo
	for i := range 12 {
		text += fmt.Sprintf(
			"kind: Topic\nmetadata: {name: topic-%d}\nspec: {cluster: demo, minInSyncReplicas: 9, replicas: 1, segment: {size: \"1\"}}\n---\n",
			i,
		)
	}
	all := parse(t, strings.TrimSuffix(text, "---\n"))
	texts := map[string]bool{}
	for range 10 {
		_, faults := all.build(nil, nil)
		if len(faults) != 12 {
			t.Fatalf("%d faults: %v", len(faults), faults)
		}
		texts[errors.Join(faults...).Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("equal faults have %d different texts, want 1", len(texts))
	}
}

func TestImageOfResources(t *testing.T) {
	alive := map[int32]metadata.Broker{0: {ID: 0, Epoch: 4}, 1: {ID: 1, Epoch: 2}}
	led := func(broker, epoch int) string {
		return fmt.Sprintf("%d@7 %d:%d i 1", broker, broker, epoch)
	}
	offline := ""
	for _, test := range []struct{ name, text, want string }{
		{
			"partitions in any order",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 2}\n---\n" +
				partitionText("a", 1, led(1, 2)) + "---\n" +
				partitionText("a", 0, led(0, 4)),
			"a retain=true [0]:0@7[0] [1]:1@7[1]\n",
		},
		{
			"Kafka name and reclaimPolicy",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, topicName: A_a, partitions: 1, reclaimPolicy: Delete}\n---\n" +
				partitionText("a", 0, offline),
			"A_a retain=false [0]:-1@0[]\n",
		},
		{
			"a leader that is not alive is not in the image",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 3}\n---\n" +
				partitionText("a", 2, led(2, 1)),
			"a retain=true []:-1@0[] []:-1@0[] [2]:-1@7[2]\n",
		},
		{
			"a leader in another broker epoch than the elected one is not in the image",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 1}\n---\n" +
				partitionText("a", 0, led(0, 3)),
			"a retain=true [0]:-1@7[0]\n",
		},
		{
			"a new topic without partitions is omitted",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 1}\n", "",
		},
		{
			"a missing partition, and a partition beyond spec.partitions",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 3}\n---\n" +
				partitionText("a", 0, led(0, 4)) + "---\n" +
				partitionText("a", 2, offline) + "---\n" + partitionText("a", 3, offline),
			"a retain=true [0]:0@7[0] []:-1@0[] [2]:-1@0[]\n",
		},
		{
			"a partition without a topic",
			partitionText("old", 0, offline), "",
		},
		{
			"a topic of another cluster",
			"kind: Topic\nmetadata: {name: a}\nspec: {cluster: other, partitions: 1}\n---\n" +
				partitionText("a", 0, offline), "",
		},
		{
			"two topics with the same Kafka name",
			"kind: Topic\nmetadata: {name: b, creationTimestamp: \"2026-01-02T00:00:00Z\"}\nspec: {cluster: demo, topicName: a, partitions: 1}\n---\n" +
				"kind: Topic\nmetadata: {name: a, creationTimestamp: \"2026-01-01T00:00:00Z\"}\nspec: {cluster: demo, partitions: 1}\n---\n" +
				partitionText("a", 0, offline) + "---\n" + partitionText("b", 0, led(0, 4)),
			"a retain=true [0]:-1@0[]\n",
		},
		{
			"a topic that is being deleted",
			"kind: Topic\nmetadata: {name: a, deletionTimestamp: \"2026-01-02T00:00:00Z\"}\nspec: {cluster: demo, partitions: 1}\n---\n" +
				partitionText("a", 0, led(0, 4)), "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			image, faults := parse(t, demo+test.text).build(alive, nil)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if got := describe(image); got != test.want {
				t.Errorf("got image\n%swant\n%s", got, test.want)
			}
		})
	}
}

// TestIDsAreUIDs checks that the cluster id and topic ids are the resources' uids (ADR 0002).
func TestIDsAreUIDs(t *testing.T) {
	text := demo + "kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 1}\n---\n" +
		partitionText("a", 0, "")
	image, _ := parse(t, text).build(nil, nil)
	if image.ClusterID != "VQ6EAOKbQdSnFkRmVUQAAA" {
		t.Errorf("got cluster id %s", image.ClusterID)
	}
	if topic := image.Topic("a"); topic.ID != (metadata.ID{6: 0x40, 8: 0x80, 15: 0x01}) ||
		topic.Settings.KeepCodec {
		t.Errorf("got topic %+v, want the id of its uid and the cluster's compression", topic)
	}
}

// TestTopicWithInvalidSettingsKeepsItsPreviousOnes checks that a topic that becomes invalid through
// the cluster's defaults stays in the image with its previous settings, because brokers delete the
// records of a topic that is missing. A new topic with invalid settings must be omitted. A broker
// that has just started has no last image, and must keep the logs of both topics.
func TestTopicWithInvalidSettingsKeepsItsPreviousOnes(t *testing.T) {
	topic := "kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 1, compaction: {minLag: 1h}}\n---\n" +
		"kind: Topic\nmetadata: {name: new}\nspec: {cluster: demo, partitions: 1, compaction: {minLag: 1h}}\n---\n" +
		partitionText(
			"a",
			0,
			"-@3 0 i 1",
		) + "---\n" +
		partitionText(
			"new",
			0,
			"",
		)
	before, faults := parse(t, demo+topic).build(nil, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	changed := parse(
		t,
		"kind: LogCluster\nmetadata: {name: demo}\nspec: {topicDefaults: {compaction: {maxLag: 1m}}}\n---\n"+
			strings.Replace(topic, "-@3", "-@4", 1),
	)
	before.Topics = before.Topics[:1] // the last image contains only topic a
	before = metadata.NewImage(before.ClusterID, before.Cleaner, before.Brokers, before.Topics)
	after, faults := changed.build(nil, before)
	if len(faults) != 2 || !strings.Contains(fmt.Sprint(faults),
		"topic a: spec.compaction.minLag: Invalid value") {
		t.Errorf("got faults %v, want one for each of two topics", faults)
	}
	if kept := after.Topic("a"); kept == nil || kept.Settings.MinLag != time.Hour ||
		kept.Partitions[0].LeaderEpoch != 4 {
		t.Errorf("got topic a %+v, want its previous settings and its current partitions", kept)
	}
	if after.Topic("new") != nil {
		t.Error("a new topic with invalid settings is in the image")
	}
	if first, _ := changed.build(nil, nil); len(after.Unresolved) != 1 || len(first.Unresolved) != 2 {
		t.Errorf("unresolved topics: %v, and in a first image %v; want one and two",
			after.Unresolved, first.Unresolved)
	}
	if before.Topic("a").Partitions[0].LeaderEpoch != 3 {
		t.Error("the previous image was changed")
	}
}

// TestCleanIsRequestedByAnnotation checks that the image contains the annotation
// heartwood.dev/clean-now, even if the topic's settings have become invalid.
func TestCleanIsRequestedByAnnotation(t *testing.T) {
	all := parse(
		t,
		demo+"kind: Topic\nmetadata: {name: a, annotations: {heartwood.dev/clean-now: monday}}\nspec: {cluster: demo, partitions: 1}\n---\n"+
			partitionText(
				"a",
				0,
				"-@3 0 i 1",
			),
	)
	before, _ := all.build(nil, nil)
	if got := before.Topic("a").CleanNow; got != "monday" {
		t.Errorf("got CleanNow %q, want monday", got)
	}
	all.topics[0].Annotations[v1alpha1.AnnotationCleanNow] = "tuesday"
	all.topics[0].Spec.Compaction = &v1alpha1.Compaction{MinDirtyPercent: v1alpha1.PercentOf(101)}
	after, faults := all.build(nil, before)
	if len(faults) != 1 || after.Topic("a").CleanNow != "tuesday" ||
		before.Topic("a").CleanNow != "monday" {
		t.Errorf("%v: before %+v, after %+v", faults, before.Topic("a"), after.Topic("a"))
	}
}

// TestTopicWithoutPartitionsStays checks that a topic of the last image stays in the image when its
// entries have been removed. Otherwise brokers would delete its records.
func TestTopicWithoutPartitionsStays(t *testing.T) {
	all := parse(
		t,
		demo+"kind: Topic\nmetadata: {name: a}\nspec: {cluster: demo, partitions: 1}\n---\n"+
			partitionText("a", 0, "-@3 0 i 1"),
	)
	before, _ := all.build(nil, nil)
	all.sets = (&decodedSets{}).decode("demo", emptySets("demo"))
	after, _ := all.build(nil, before)
	if topic := after.Topic("a"); topic == nil || len(topic.Partitions) != 0 {
		t.Errorf("got topic %+v, want the topic without partitions", topic)
	}
}

// TestCacheComplete checks that cacheComplete returns false while the caches lack a Topic or a
// partition that the API server has, or while a PartitionSet of the LogCluster does not exist. The
// first image must not be built from such caches.
func TestCacheComplete(t *testing.T) {
	const topic = "kind: Topic\nmetadata: {name: a, namespace: here}\nspec: {cluster: demo, partitions: 1}\n---\n"
	live := parse(t, demo+topic+partitionText("a", 0, "-@3 0 i 1"))
	none := parse(t, demo+strings.TrimSuffix(topic, "---\n"))
	key := partitionset.Key{Topic: "a"}
	set := setOf("", "").DeepCopy()
	set.Name, set.Spec.Index = setName(key), partitionset.Number(key, testSets)
	set.Namespace, set.UID, set.ResourceVersion = "here", "", ""
	set.Spec.Assignments = map[string]string{"a/0": "0 " + partitionset.Tag(metadata.ID{})}
	other := emptySets("demo")[1-set.Spec.Index]
	other.Namespace = "here"
	complete := func(known resources, stored ...client.Object) bool {
		s := &Store{
			opts:   Options{Namespace: "here", Cluster: "demo"},
			client: fakeapi.Builder(t, stored...).Build(),
		}
		got, err := s.cacheComplete(t.Context(), known)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	stored := []client.Object{live.topics[0], set, other}
	invalid := set.DeepCopy()
	invalid.Spec.Assignments["a/0"] = "broken"
	for name, test := range map[string]struct {
		known  resources
		stored []client.Object
		want   bool
	}{
		"all":                        {live, stored, true},
		"topic missing":              {resources{sets: live.sets}, stored, false},
		"partition missing":          {none, stored, false},
		"invalid entry missing":      {none, []client.Object{live.topics[0], invalid, other}, false},
		"sets missing in the caches": {resources{topics: live.topics}, stored, false},
		"set missing":                {live, stored[:2], false},
		"no sets":                    {live, stored[:1], false},
		"all, and a deleted topic": {resources{topics: append(live.topics, &v1alpha1.Topic{}),
			sets: live.sets}, stored, true},
		"empty": {resources{}, stored, false},
	} {
		if got := complete(test.known, test.stored...); got != test.want {
			t.Errorf("%s: got complete %t, want %t", name, got, test.want)
		}
	}
}

func TestInvalidUIDs(t *testing.T) {
	all := parse(
		t,
		demo+"kind: Topic\nmetadata: {name: a, uid: nonsense}\nspec: {cluster: demo, partitions: 1}\n",
	)
	if image, faults := all.build(nil, nil); len(faults) != 1 || len(image.Topics) != 0 {
		t.Errorf("topic with an invalid uid: got image %v, faults %v", image, faults)
	}
	all.cluster.UID = "nonsense"
	if image, faults := all.build(nil, nil); len(faults) != 1 || image != nil {
		t.Errorf("cluster with an invalid uid: got image %v, faults %v", image, faults)
	}
}

// TestStatusOfTopicsDoesNotAffectImages checks that an update of a Topic's or LogCluster's status
// does not rebuild the image, because the image does not depend on the status. The status changes
// with every partition that fails or returns.
func TestStatusOfTopicsDoesNotAffectImages(t *testing.T) {
	objectMeta := metav1.ObjectMeta{UID: "a", Generation: 1}
	changed, other, deleting := objectMeta, objectMeta, objectMeta
	changed.Generation, other.UID, deleting.DeletionTimestamp = 2, "b",
		&metav1.Time{Time: time.Unix(1, 0)}
	requested, annotated := objectMeta, objectMeta
	requested.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: "today"}
	scrubbed := objectMeta
	scrubbed.Annotations = map[string]string{v1alpha1.AnnotationScrubNow: "today"}
	annotated.Annotations = map[string]string{"example.com/note": "today"}
	counted := v1alpha1.TopicStatus{ReadyPartitions: 3}
	for name, c := range map[string]struct {
		before, after any
		affects       bool
	}{
		"Topic status": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: objectMeta, Status: counted}, false},
		"Topic spec": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: changed}, true},
		"re-created Topic": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: other}, true},
		"Topic being deleted": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: deleting}, true},
		"requested scrub": {&v1alpha1.LogCluster{ObjectMeta: objectMeta},
			&v1alpha1.LogCluster{ObjectMeta: scrubbed}, true},
		"requested compaction": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: requested}, true},
		"other annotation": {&v1alpha1.Topic{ObjectMeta: objectMeta},
			&v1alpha1.Topic{ObjectMeta: annotated}, false},
		"LogCluster status": {&v1alpha1.LogCluster{ObjectMeta: objectMeta},
			&v1alpha1.LogCluster{ObjectMeta: objectMeta}, false},
		"LogCluster spec": {&v1alpha1.LogCluster{ObjectMeta: objectMeta},
			&v1alpha1.LogCluster{ObjectMeta: changed}, true},
		"PartitionSet": {&v1alpha1.PartitionSet{ObjectMeta: objectMeta},
			&v1alpha1.PartitionSet{ObjectMeta: objectMeta}, true},
	} {
		if got := affectsImage(c.before, c.after); got != c.affects {
			t.Errorf("%s: affectsImage returned %t, want %t", name, got, c.affects)
		}
	}
}

// TestImageHasReplicaIncarnations checks that the image lists the replica incarnation ids in the
// order of Replicas.
func TestImageHasReplicaIncarnations(t *testing.T) {
	set, faults := partitionset.Decode(setOf("2,0,1 abcdefgh",
		"2@9 2:3,0,1:8 two,zero,one 1 unproven=4"), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	entry, _ := set.Get(orders(0))
	got := &metadata.Partition{}
	fillPartition(got, entry, map[int32]metadata.Broker{2: {ID: 2, Epoch: 3}})
	want := &metadata.Partition{
		Leader: 2, LeaderEpoch: 9, PartitionEpoch: 1, UnprovenEpoch: 4,
		Replicas:            []int32{2, 0, 1},
		ReplicaIncarnations: []string{"two", "zero", "one"},
		ISR:                 []int32{2, 1}, ISREpochs: []int64{3, 8},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got partition %+v, want %+v", got, want)
	}
	for broker, want := range map[int32]string{2: "two", 0: "zero", 1: "one", 7: "", -1: ""} {
		if id := got.ReplicaIncarnation(broker); id != want {
			t.Errorf("broker %d: got incarnation id %q, want %q", broker, id, want)
		}
	}
}
