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

// topics parses topics. Each line contains a topic's name and its spec as YAML.
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

// brokersOf returns the broker of each of a topic's partitions, by index. Each partition must have
// only one replica.
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

func TestSyncAppliesManifests(t *testing.T) {
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
		t.Errorf("brokers of a (-want +got):\n%s", diff)
	}
	if s.Image().Topic("b") != nil || s.Image().Topic("B_b") == nil {
		t.Error("the image does not contain topic b under its topicName")
	}
	id := s.Image().Topic("a").ID
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "made", Partitions: 1, Replicas: -1}); err != nil {
		t.Fatal(err)
	}

	sync(`a {partitions: 5, segment: {size: 1Mi}}`)
	a := s.Image().Topic("a")
	if a.ID != id || len(a.Partitions) != 5 || a.Settings.SegmentBytes != 1<<20 {
		t.Errorf("topic a after the second Sync: got %+v", a)
	}
	if diff := cmp.Diff([]int32{0, 1, 2}, brokersOf(t, s, "a")[:3]); diff != "" {
		t.Errorf("partitions moved (-want +got):\n%s", diff)
	}
	if s.Image().Topic("B_b") != nil {
		t.Error("a topic without a manifest was not deleted")
	}
	if s.Image().Topic("made") == nil {
		t.Error("a topic created through Kafka was deleted")
	}
	_, brokers, manifests := s.Manifests()
	if brokers != 3 || len(manifests) != 1 || manifests[0].Name != "a" {
		t.Errorf("Manifests: got %d brokers, topics %v, want 3 brokers, topic a", brokers, manifests)
	}
}

// TestCleanNowAnnotation checks that the annotation is stored for a start without manifests, and
// disappears when it is removed from the manifest.
func TestCleanNowAnnotation(t *testing.T) {
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
	if err := s.Sync(nil, 1, manifests); err != nil { // as in a start without manifests
		t.Fatal(err)
	}
	if got := open(t, mem).Image().Topic("a").CleanNow; got != "monday" {
		t.Errorf("got CleanNow %q, want monday", got)
	}
	sync(nil)
	if got := s.Image().Topic("a").CleanNow; got != "" {
		t.Errorf("without the annotation: got CleanNow %q", got)
	}
}

func TestManifestTakesOverATopicCreatedThroughKafka(t *testing.T) {
	s := open(t, memory(t))
	created, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "a", Partitions: 2, Replicas: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(nil, 1, topics(t, `a {partitions: 2, cleanupPolicy: Compact}`)); err != nil {
		t.Fatal(err)
	}
	if a := s.Image().Topic("a"); a.ID != created.ID || !a.Settings.Compact || !a.RetainData {
		t.Errorf("got topic %+v, want the manifest's settings and id %s", a, created.ID)
	}
	if err := s.Sync(nil, 1, nil); err != nil || s.Image().Topic("a") != nil {
		t.Errorf("the topic was not deleted with its manifest: %v", err)
	}
}

func TestManifestCannotGrowTheOffsetsTopic(t *testing.T) {
	s := open(t, memory(t))
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "__consumer_offsets", Partitions: 5, Replicas: -1}); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 1, topics(t, `offsets {topicName: __consumer_offsets, partitions: 6}`))
	if !errors.Is(err, metadata.ErrInvalidPartitions) ||
		len(s.Image().Topic("__consumer_offsets").Partitions) != 5 {
		t.Errorf(
			"got error %v, %d partitions, want ErrInvalidPartitions, 5 partitions",
			err,
			len(s.Image().Topic("__consumer_offsets").Partitions),
		)
	}
	if err := s.Sync(nil, 1, topics(t,
		`offsets {topicName: __consumer_offsets, partitions: 5}`)); err != nil {
		t.Error(err)
	}
}

// TestFaultsOfOneTopicDoNotAffectOthers checks that Sync applies valid topics even if others are
// invalid. Each error must begin with the path of the field and end with the resource.
func TestFaultsOfOneTopicDoNotAffectOthers(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `shrinks {partitions: 3}`)); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 3, topics(t, `shrinks {partitions: 2}`, `many {partitions: 1, replicas: 4}`,
		`good {partitions: 1}`))
	want := "spec.partitions: Invalid value: 2: the topic has 3 partitions; their number cannot be reduced, because records would be lost" +
		" (invalid number of partitions) (Topic/shrinks)\n" +
		"invalid replication factor: not enough brokers: 4 replicas requested, 3 brokers exist (Topic/many)"
	if err == nil || err.Error() != want {
		t.Errorf("got faults:\n%v\nwant:\n%s", err, want)
	}
	if !errors.Is(err, metadata.ErrInvalidReplication) ||
		!errors.Is(err, metadata.ErrInvalidPartitions) {
		t.Errorf("faults do not wrap the errors of package metadata: %v", err)
	}
	image := s.Image()
	if image.Topic("good") == nil || image.Topic("many") != nil ||
		len(image.Topic("shrinks").Partitions) != 3 {
		t.Errorf("got topics %v", image.Topics)
	}
}

// TestRemovedBrokersAreDrained checks that replicas on a removed broker get a target, and that the
// broker must run until these replicas have moved.
func TestRemovedBrokersAreDrained(t *testing.T) {
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
		t.Errorf("got %d requested brokers and %d that must run, want 2 and 3", brokers, s.Running())
	}
	// The brokers in the target copy the replicas, and the leader adds them to the ISR.
	for _, topic := range s.Image().Topics {
		for _, p := range topic.Partitions {
			catchUp(t, s, topic, p)
		}
	}
	for _, topic := range s.Image().Topics {
		for _, p := range topic.Partitions {
			if slices.Contains(p.Replicas, 2) || p.Target != nil || p.Leader == 2 ||
				p.Leader == metadata.NoBroker {
				t.Errorf("%s-%d after draining: %+v", topic.Name, p.Index, p)
			}
		}
	}
	if s.Running() != 2 {
		t.Errorf("after draining: got %d required brokers, want 2", s.Running())
	}
}

// catchUp adds all replicas of a partition to the ISR, as its leader would.
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

func TestBrokersWithRequiredReplicasCannotBeRemoved(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 2, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	err := s.Sync(nil, 2, topics(t, `a {partitions: 2, replicas: 3}`, `b {partitions: 1}`))
	want := "brokers cannot be removed, because too few would remain for the replicas of some topics: topics a need 3 brokers"
	if !errors.Is(err, ErrBrokersInUse) || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if s.Image().Topic("b") != nil || s.Running() != 3 {
		t.Error("a failed Sync has changed the metadata")
	}
	if err := s.Sync(nil, 2, topics(t, `a {partitions: 2, replicas: 2}`)); err != nil {
		t.Errorf("with fewer replicas: got error %v", err)
	}
	if err := s.Sync(nil, 0, nil); err == nil {
		t.Error("a Sync without brokers was accepted")
	}
}

// TestInvalidDefaultsAreRejected checks that Sync fails if the cluster's new defaults make a topic
// invalid that was created through Kafka.
func TestInvalidDefaultsAreRejected(t *testing.T) {
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
		t.Errorf("got error %v", err)
	}
	if s.Image().Topic("a") != nil {
		t.Error("a failed Sync has changed the metadata")
	}
}

// TestRetainedDataIsAdopted checks that a deleted topic whose data are retained, and that is
// created again with one more partition, has its first two partitions on the same brokers as
// before, with their leader epochs (ADR 0030).
func TestRetainedDataIsAdopted(t *testing.T) {
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
	run(t, s, 0, 1, 2)() // all brokers were up and have stopped, so the leader epoch is 2
	fill(`a {partitions: 1}`)
	fill(`a {partitions: 3}`, `c {partitions: 1}`)
	s = open(t, mem)
	retained := s.Image().Retained
	if len(retained) != 2 {
		t.Fatalf("got retained partitions %+v, want those of b", retained)
	}
	if got := retained[1]; got.Topic != "b" || got.Partition != 1 {
		t.Errorf("got retained partition %+v, want b/1", got)
	}
	if got := retained[1]; got.LeaderEpoch != 2 || len(got.Replicas) != 1 {
		t.Errorf("got retained partition %+v, want leader epoch 2 and one replica", got)
	}
	fill(`a {partitions: 3}`, `c {partitions: 1}`, `b {partitions: 3}`, `gone {partitions: 1}`)
	b := s.Image().Topic("b")
	if diff := cmp.Diff(before, brokersOf(t, s, "b")[:2]); diff != "" {
		t.Errorf("brokers of b (-want +got):\n%s", diff)
	}
	if b.ID == id {
		t.Error("the new topic has the id of the deleted one")
	}
	if b.Partitions[0].LeaderEpoch != 2 || b.Partitions[2].LeaderEpoch != 0 {
		t.Errorf("got leader epochs %d and %d, want 2 for the retained partition, 0 for the new one",
			b.Partitions[0].LeaderEpoch, b.Partitions[2].LeaderEpoch)
	}
	if s.Image().Topic("gone").Partitions[0].LeaderEpoch != 0 {
		t.Error("a topic whose data was deleted has its old leader epoch")
	}
	for key, entry := range s.changing.document.set.All() {
		if isRetained(entry) {
			t.Errorf("partition %s was adopted, but its entry is retained", key)
		}
	}
}

// TestInternalTopicsOfManifestsKeepTheirPolicy checks that a manifest that removes an internal
// topic's policy, or sets a retention, is rejected, and that the topic stays compacted. A topic
// without a policy must be compacted.
func TestInternalTopicsOfManifestsKeepTheirPolicy(t *testing.T) {
	s := open(t, memory(t))
	compact := `offsets {topicName: __consumer_offsets, partitions: 1, cleanupPolicy: Compact}`
	if err := s.Sync(nil, 1, topics(t, compact,
		`transactions {topicName: __transaction_state, partitions: 1}`)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`offsets {topicName: __consumer_offsets, partitions: 1}`,
		`offsets {topicName: __consumer_offsets, partitions: 1, cleanupPolicy: Delete}`,
		`offsets {topicName: __consumer_offsets, partitions: 1, cleanupPolicy: Compact, retention: {time: 1m}}`,
	} {
		if err := s.Sync(nil, 1, topics(t, line,
			`transactions {topicName: __transaction_state, partitions: 1}`)); !errors.Is(err, metadata.ErrInvalidSettings) {
			t.Errorf("%s: got error %v", line, err)
		}
	}
	for _, name := range []string{metadata.OffsetsTopic, metadata.TransactionsTopic} {
		if topic := s.Image().Topic(name); topic == nil || !topic.Settings.Compact ||
			topic.Settings.Delete {
			t.Errorf("%s: got topic %+v", name, topic)
		}
	}
}
