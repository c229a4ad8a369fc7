package local

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

const directory, file = "/data", "/data/metadata.json"

func memory(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll(directory); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	return mem
}

func open(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	store, err := Open(fsys, file)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// topics reads topics: a line each, name and spec as YAML.
func topics(t *testing.T, lines ...string) []*v1alpha1.Topic {
	t.Helper()
	var all []*v1alpha1.Topic
	for _, line := range lines {
		name, spec, _ := strings.Cut(line, " ")
		topic := &v1alpha1.Topic{}
		if err := yaml.UnmarshalStrict([]byte("{metadata: {name: "+name+"}, spec: "+spec+"}"),
			topic); err != nil {
			t.Fatal(err)
		}
		all = append(all, topic)
	}
	return all
}

func logCluster(t *testing.T, spec string) *v1alpha1.LogCluster {
	t.Helper()
	cluster := &v1alpha1.LogCluster{}
	if err := yaml.UnmarshalStrict([]byte("{metadata: {name: demo}, spec: "+spec+"}"),
		cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// brokersOf tells which brokers hold a topic's partitions, by index.
func brokersOf(t *testing.T, s *Store, topic string) []int32 {
	t.Helper()
	found := s.Image().Topic(topic)
	if found == nil {
		return nil
	}
	var brokers []int32
	for _, p := range found.Partitions {
		if len(p.Replicas) != 1 {
			t.Fatalf("%s-%d is on brokers %v, want one", topic, p.Index, p.Replicas)
		}
		brokers = append(brokers, p.Replicas[0])
	}
	return brokers
}

func TestSyncFollowsTheManifests(t *testing.T) {
	s := open(t, memory(t))
	sync := func(manifests ...string) {
		t.Helper()
		if err := s.Sync(logCluster(t, `{topicDefaults: {compression: {type: lz4}}}`), 3,
			topics(t, manifests...)); err != nil {
			t.Fatal(err)
		}
	}
	sync(`a {partitions: 3}`, `b {partitions: 1, topicName: B_b}`)
	if diff := cmp.Diff([]int32{0, 1, 2}, brokersOf(t, s, "a")); diff != "" {
		t.Errorf("a is placed at (-want +got):\n%s", diff)
	}
	if s.Image().Topic("b") != nil || s.Image().Topic("B_b") == nil {
		t.Error("b is not known by its topicName")
	}
	id := s.Image().Topic("a").ID
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "made", Partitions: 1, Replicas: -1}); err != nil {
		t.Fatal(err)
	}

	sync(`a {partitions: 5, segment: {size: 1Mi}}`)
	a := s.Image().Topic("a")
	if a.ID != id || len(a.Partitions) != 5 || a.Settings.SegmentBytes != 1<<20 {
		t.Errorf("a was not changed in place: %+v", a)
	}
	if diff := cmp.Diff([]int32{0, 1, 2}, brokersOf(t, s, "a")[:3]); diff != "" {
		t.Errorf("partitions moved (-want +got):\n%s", diff)
	}
	if s.Image().Topic("B_b") != nil {
		t.Error("a topic without manifest is still there")
	}
	if s.Image().Topic("made") == nil {
		t.Error("a topic made through Kafka went with the manifests")
	}
	_, brokers, manifests := s.Manifests()
	if brokers != 3 || len(manifests) != 1 || manifests[0].Name != "a" {
		t.Errorf("in effect: %d brokers, topics %v", brokers, manifests)
	}
}

// TestACleanIsAskedForByManifest: it is kept for a start without manifests, and goes with the
// annotation.
func TestACleanIsAskedForByManifest(t *testing.T) {
	mem := memory(t)
	s := open(t, mem)
	sync := func(annotations map[string]string) {
		t.Helper()
		manifests := topics(t, `a {partitions: 1}`)
		manifests[0].Annotations = annotations
		if err := s.Sync(nil, 1, manifests); err != nil {
			t.Fatal(err)
		}
	}
	sync(map[string]string{v1alpha1.AnnotationCleanNow: "monday", "other": "x"})
	_, _, manifests := s.Manifests()
	if err := s.Sync(nil, 1, manifests); err != nil { // what a start without manifests does
		t.Fatal(err)
	}
	if got := open(t, mem).Image().Topic("a").CleanNow; got != "monday" {
		t.Errorf("asked for %q", got)
	}
	sync(nil)
	if got := s.Image().Topic("a").CleanNow; got != "" {
		t.Errorf("asked for %q without the annotation", got)
	}
}

func TestAManifestTakesOverATopicMadeThroughKafka(t *testing.T) {
	s := open(t, memory(t))
	made, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "a", Partitions: 2, Replicas: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(nil, 1, topics(t, `a {partitions: 2, cleanupPolicy: Compact}`)); err != nil {
		t.Fatal(err)
	}
	if a := s.Image().Topic("a"); a.ID != made.ID || !a.Settings.Compact || !a.RetainData {
		t.Errorf("topic is %+v, want the manifest's settings under id %s", a, made.ID)
	}
	if err := s.Sync(nil, 1, nil); err != nil || s.Image().Topic("a") != nil {
		t.Errorf("it does not go with its manifest: %v", err)
	}
}

// TestAManifestDoesNotGrowTheTopicOfGroups that clients made by joining one.
func TestAManifestDoesNotGrowTheTopicOfGroups(t *testing.T) {
	s := open(t, memory(t))
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "__consumer_offsets", Partitions: 5, Replicas: -1}); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 1, topics(t, `offsets {topicName: __consumer_offsets, partitions: 6}`))
	if !errors.Is(err, metadata.ErrInvalidPartitions) ||
		len(s.Image().Topic("__consumer_offsets").Partitions) != 5 {
		t.Errorf("%v, %d partitions", err, len(s.Image().Topic("__consumer_offsets").Partitions))
	}
	if err := s.Sync(nil, 1, topics(t,
		`offsets {topicName: __consumer_offsets, partitions: 5}`)); err != nil {
		t.Error(err)
	}
}

// TestFaultsOfOneTopicLeaveTheOthers also checks that each fault begins with the field's path and
// ends with the resource.
func TestFaultsOfOneTopicLeaveTheOthers(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `shrinks {partitions: 3}`)); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 3, topics(t, `shrinks {partitions: 2}`, `many {partitions: 1, replicas: 4}`,
		`good {partitions: 1}`))
	want := "spec.partitions: Invalid value: 2: the topic has 3 partitions; they cannot shrink, as records would be lost" +
		" (invalid number of partitions) (Topic/shrinks)\n" +
		"invalid replication factor: not enough brokers: 4 replicas asked for, 3 brokers there (Topic/many)"
	if err == nil || err.Error() != want {
		t.Errorf("faults:\n%v\nwant:\n%s", err, want)
	}
	if !errors.Is(err, metadata.ErrInvalidReplication) ||
		!errors.Is(err, metadata.ErrInvalidPartitions) {
		t.Errorf("faults have lost their kind: %v", err)
	}
	image := s.Image()
	if image.Topic("good") == nil || image.Topic("many") != nil ||
		len(image.Topic("shrinks").Partitions) != 3 {
		t.Errorf("topics are %v", image.Topics)
	}
}

// TestBrokersThatGoAreDrained: replicas are told where to move, and the broker is needed until they
// did.
func TestBrokersThatGoAreDrained(t *testing.T) {
	s := open(t, memory(t))
	manifests := topics(t, `a {partitions: 3}`, `b {partitions: 1, replicas: 2}`)
	if err := s.Sync(nil, 3, manifests); err != nil {
		t.Fatal(err)
	}
	defer run(t, s, 0, 1, 2)()
	if err := s.Sync(nil, 2, manifests); err != nil {
		t.Fatal(err)
	}
	if _, brokers, _ := s.Manifests(); brokers != 2 || s.Running() != 3 {
		t.Errorf("%d brokers are wanted and %d needed; want 2 and 3", brokers, s.Running())
	}
	// What brokers do: those that are to hold a replica copy it, and the leader takes them in.
	for _, topic := range s.Image().Topics {
		for _, p := range topic.Partitions {
			catchUp(t, s, topic, p)
		}
	}
	for _, topic := range s.Image().Topics {
		for _, p := range topic.Partitions {
			if slices.Contains(p.Replicas, 2) || p.Target != nil || p.Leader == 2 ||
				p.Leader == metadata.NoBroker {
				t.Errorf("%s-%d after its move: %+v", topic.Name, p.Index, p)
			}
		}
	}
	if s.Running() != 2 {
		t.Errorf("%d brokers are needed when nothing is left on the third, want 2", s.Running())
	}
}

// catchUp takes all replicas of a partition into the ISR, as its leader would.
func catchUp(t *testing.T, s *Store, topic *metadata.Topic, p *metadata.Partition) {
	t.Helper()
	change := metadata.ISRChange{Topic: topic.ID, Partition: p.Index, LeaderEpoch: p.LeaderEpoch,
		From: p.ISR}
	for _, id := range p.Replicas {
		b, ok := s.Image().Broker(id)
		if !ok {
			t.Fatalf("broker %d is not up", id)
		}
		change.To = append(change.To,
			metadata.InSync{Broker: id, Epoch: b.Epoch,
				ReplicaIncarnation: p.ReplicaIncarnation(id)})
	}
	if err := changeISR(t, s, change); err != nil {
		t.Fatalf("%s-%d: %v", topic.Name, p.Index, err)
	}
}

func TestBrokersStayWhenReplicasWouldNotFit(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 2, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 2, topics(t, `a {partitions: 2, replicas: 3}`, `b {partitions: 1}`))
	want := "brokers cannot be removed while topics have as many replicas as there are brokers: topics a need 3 brokers"
	if !errors.Is(err, ErrBrokersInUse) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if s.Image().Topic("b") != nil || s.Running() != 3 {
		t.Error("a refused Sync changed something")
	}
	if err := s.Sync(nil, 2, topics(t, `a {partitions: 2, replicas: 2}`)); err != nil {
		t.Errorf("with fewer replicas it may go: %v", err)
	}
	if err := s.Sync(nil, 0, nil); err == nil {
		t.Error("no brokers at all were taken")
	}
}

// TestBadDefaultsAreRefusedWhole: a topic made through Kafka would have no settings any more.
func TestBadDefaultsAreRefusedWhole(t *testing.T) {
	s := open(t, memory(t))
	_, err := s.CreateTopic(t.Context(), metadata.NewTopic{Name: "made", Partitions: 1, Replicas: 1,
		Properties: map[string]string{"min.compaction.lag.ms": "60000"}})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Sync(logCluster(t, `{topicDefaults: {compaction: {maxLag: 1s}}}`), 1,
		topics(t, `a {partitions: 1}`))
	if err == nil || !strings.Contains(err.Error(),
		`topic "made": spec.compaction.minLag: Invalid value: "1m0s"`) {
		t.Errorf("error %v", err)
	}
	if s.Image().Topic("a") != nil {
		t.Error("a refused Sync changed something")
	}
}

// TestRetainedDataIsFoundAgain: ADR 0030.
func TestRetainedDataIsFoundAgain(t *testing.T) {
	mem := memory(t)
	s := open(t, mem)
	fill := func(manifests ...string) {
		t.Helper()
		if err := s.Sync(nil, 3, topics(t, manifests...)); err != nil {
			t.Fatal(err)
		}
	}
	fill(`a {partitions: 1}`, `b {partitions: 2}`, `gone {partitions: 1, reclaimPolicy: Delete}`)
	before := brokersOf(t, s, "b")
	id := s.Image().Topic("b").ID
	run(t, s, 0, 1, 2)() // every broker was up once, and went: epoch 2
	fill(`a {partitions: 1}`)
	fill(`a {partitions: 3}`, `c {partitions: 1}`)
	s = open(t, mem)
	fill(`a {partitions: 3}`, `c {partitions: 1}`, `b {partitions: 3}`, `gone {partitions: 1}`)
	b := s.Image().Topic("b")
	if diff := cmp.Diff(before, brokersOf(t, s, "b")[:2]); diff != "" {
		t.Errorf("b's data lies elsewhere (-want +got):\n%s", diff)
	}
	if b.ID == id {
		t.Error("another topic has the old one's id")
	}
	if b.Partitions[0].LeaderEpoch != 2 || b.Partitions[2].LeaderEpoch != 0 {
		t.Errorf("epochs %d and %d, want 2 for the retained partition, 0 for the new one",
			b.Partitions[0].LeaderEpoch, b.Partitions[2].LeaderEpoch)
	}
	if s.Image().Topic("gone").Partitions[0].LeaderEpoch != 0 {
		t.Error("a topic whose data was deleted goes on from its old epoch")
	}
	if len(s.changing.document.Retained) != 0 {
		t.Errorf("used entries stay: %v", s.changing.document.Retained)
	}
}
