package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

func openAltered(t *testing.T, brokers int, topics ...*v1alpha1.Topic) *Store {
	t.Helper()
	s, err := Open(vfs.NewMem(), "/metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(nil, brokers, topics); err != nil {
		t.Fatal(err)
	}
	return s
}

func setProperty(name, value string) []metadata.PropertyChange {
	return []metadata.PropertyChange{{Name: name, Op: metadata.PropertySet, Value: value}}
}

func TestAlterTopicsCreatedThroughKafka(t *testing.T) {
	s := openAltered(t, 1)
	created, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "Orders", Partitions: 2, Replicas: -1})
	if err != nil {
		t.Fatal(err)
	}
	change := metadata.TopicChange{Name: "Orders",
		Properties: setProperty("cleanup.policy", "compact"), Validate: true}
	if err := s.AlterTopic(t.Context(), change); err != nil ||
		s.Image().Topic("Orders").Settings.Compact {
		t.Errorf("with Validate: got error %v, want nil and no change", err)
	}
	change.Validate = false
	if err := s.AlterTopic(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePartitions(t.Context(),
		metadata.NewPartitions{Name: "Orders", Count: 5}); err != nil {
		t.Fatal(err)
	}
	topic := s.Image().Topic("Orders")
	if !topic.Settings.Compact || topic.ID != created.ID || len(topic.Partitions) != 5 ||
		topic.RetainData {
		t.Errorf("got topic %+v, want the same id, compact, 5 partitions, reclaim policy Delete", topic)
	}
	for _, test := range []struct {
		err  error
		want error
	}{
		{s.AlterTopic(t.Context(), metadata.TopicChange{Name: "none"}), metadata.ErrTopicNotFound},
		{s.AlterTopic(t.Context(),
			metadata.TopicChange{Name: "Orders", Properties: setProperty("no.such", "1")}),
			metadata.ErrInvalidSettings},
		{s.CreatePartitions(t.Context(), metadata.NewPartitions{Name: "none", Count: 5}),
			metadata.ErrTopicNotFound},
		{s.CreatePartitions(t.Context(), metadata.NewPartitions{Name: "Orders", Count: 5}),
			metadata.ErrInvalidPartitions},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("got error %v, want %v", test.err, test.want)
		}
	}
}

// TestTopicsOfManifestsCannotBeChanged checks that admin clients can neither change nor delete a
// topic that is in a manifest (ADR 0160), unless the manifest can no longer be read.
func TestTopicsOfManifestsCannotBeChanged(t *testing.T) {
	s := openAltered(t, 1, topics(t, `orders {partitions: 1}`, `other {partitions: 1}`)...)
	change := func(name string) []error {
		return []error{
			s.AlterTopic(t.Context(),
				metadata.TopicChange{Name: name, Properties: setProperty("retention.ms", "1")}),
			s.CreatePartitions(t.Context(), metadata.NewPartitions{Name: name, Count: 5}),
			s.DeleteTopic(t.Context(), name),
		}
	}
	for _, err := range change("orders") {
		if !errors.Is(err, metadata.ErrPolicy) || !strings.Contains(err.Error(), "Topic/orders") {
			t.Errorf("got error %v, want ErrPolicy", err)
		}
	}
	if err := s.Keep([]string{"orders"}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTopic(t.Context(), "other"); !errors.Is(err, metadata.ErrPolicy) {
		t.Errorf("other topic: got error %v, want ErrPolicy", err)
	}
	if err := errors.Join(change("orders")...); err != nil {
		t.Error(err)
	}
	if err := s.Apply(&Manifests{Brokers: 1, KeepTopics: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change("other")...); err != nil {
		t.Errorf("kept topic: %v", err)
	}
	if left := s.Image().Topics; len(left) != 0 {
		t.Errorf("got topics %v, want none", left)
	}
}

// TestChangedTopicStaysWithoutItsManifest checks that a kept topic no longer depends on its
// manifest after an admin client has changed it.
func TestChangedTopicStaysWithoutItsManifest(t *testing.T) {
	s := openAltered(t, 1, topics(t, `orders {partitions: 1}`)...)
	err := errors.Join(s.Keep([]string{"orders"}), s.AlterTopic(t.Context(),
		metadata.TopicChange{Name: "orders", Properties: setProperty("retention.ms", "1")}),
		s.Sync(nil, 1, nil))
	if err != nil || s.Image().Topic("orders") == nil {
		t.Errorf("got error %v and topic %v", err, s.Image().Topic("orders"))
	}
}

func alterCluster(t *testing.T, s *Store, properties ...metadata.PropertyChange) error {
	t.Helper()
	return s.AlterCluster(t.Context(), metadata.ClusterChange{Properties: properties})
}

func TestAlterClusterWithoutManifest(t *testing.T) {
	s := openAltered(t, 3)
	startAll(t, s, 3)
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 1, Replicas: -1}); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterCluster(t.Context(), metadata.ClusterChange{Validate: true,
		Properties: setProperty("log.retention.ms", "1000")}); err != nil ||
		len(s.Image().ClusterProperties) != 0 {
		t.Errorf("with Validate: got error %v and settings %v", err, s.Image().ClusterProperties)
	}
	change := append(setProperty("log.retention.ms", "1000"),
		setProperty("default.replication.factor", "2")...)
	if err := alterCluster(t, s, change...); err != nil {
		t.Fatal(err)
	}
	topic := s.Image().Topic("orders")
	if topic.Settings.RetentionTime.Seconds() != 1 || len(topic.Partitions[0].Replicas) != 2 {
		t.Errorf("got settings %+v and replicas %v, want the new defaults",
			topic.Settings, topic.Partitions[0].Replicas)
	}
	// The LogCluster is not from a manifest: the next start without -f must not treat it as one, and
	// manifests without a LogCluster must not remove it.
	if cluster, _, _ := s.Manifests(); cluster != nil {
		t.Errorf("Manifests returns %+v", cluster)
	}
	if err := s.Sync(nil, 4, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Image().ClusterProperties["log.retention.ms"]; got != "1000" {
		t.Errorf("after Sync: got log.retention.ms %q", got)
	}
	if err := alterCluster(t, s, metadata.PropertyChange{Name: "log.retention.ms",
		Op: metadata.PropertyDelete}, metadata.PropertyChange{Name: "default.replication.factor",
		Op: metadata.PropertyDelete}); err != nil {
		t.Fatal(err)
	}
	if s.changing.document.Cluster != nil {
		t.Errorf("got LogCluster %+v after all settings were deleted", s.changing.document.Cluster)
	}
}

func TestInvalidChangesOfTheClusterChangeNothing(t *testing.T) {
	s := openAltered(t, 1)
	s.CheckClusters(func(cluster *v1alpha1.LogCluster) error {
		if cluster.Spec.Groups != nil && *cluster.Spec.Groups.MaxMembers == 13 {
			return errors.New("no luck")
		}
		return nil
	})
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, value string
		want        error
	}{
		{"nonsense", "1", metadata.ErrInvalidProperty},
		{"group.max.size", "13", metadata.ErrInvalidSettings},
	} {
		if err := alterCluster(t, s, setProperty(test.name, test.value)...); !errors.Is(err,
			test.want) {
			t.Errorf("%s: got error %v, want %v", test.name, err, test.want)
		}
	}
	if len(s.Image().ClusterProperties) != 0 {
		t.Errorf("got settings %v", s.Image().ClusterProperties)
	}
}

// TestClusterOfManifestCannotBeAltered checks that admin clients cannot change a LogCluster that is
// in a manifest (ADR 0160), and that a manifest takes over a LogCluster that admin clients have
// created.
func TestClusterOfManifestCannotBeAltered(t *testing.T) {
	s := openAltered(t, 1)
	if err := alterCluster(t, s, setProperty("group.max.size", "7")...); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.LogCluster{}
	cluster.Name, cluster.Spec.Brokers = "main", 1
	if err := s.Sync(cluster, 1, nil); err != nil {
		t.Fatal(err)
	}
	err := alterCluster(t, s, setProperty("group.max.size", "8")...)
	if !errors.Is(err, metadata.ErrPolicy) || !strings.Contains(err.Error(), "LogCluster/main") {
		t.Errorf("got error %v", err)
	}
	if got := s.Image().Groups.MembersMax; got != 0 {
		t.Errorf("got %d members, want the value of the manifest", got)
	}
}

func TestElectPreferred(t *testing.T) {
	s := openAltered(t, 2)
	brokers := startAll(t, s, 2)
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 1, Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	elect := func() error {
		return s.ElectPreferred(t.Context(),
			[]metadata.PartitionRef{{Topic: "orders"}})[0]
	}
	if err := elect(); !errors.Is(err, metadata.ErrElectionNotNeeded) {
		t.Error(err)
	}
	preferred := s.partitionOf("orders").Replicas[0]
	brokers[preferred].down()
	if err := elect(); !errors.Is(err, metadata.ErrPreferredUnavailable) {
		t.Error(err)
	}
	brokers[preferred].up()
	p := s.partitionOf("orders")
	joined := metadata.ISRChange{Topic: s.Image().Topic("orders").ID, LeaderEpoch: p.LeaderEpoch,
		From: p.ISR}
	for _, b := range s.Image().Brokers {
		joined.To = append(joined.To,
			metadata.InSync{Broker: b.ID, Epoch: b.Epoch,
				ReplicaIncarnation: p.ReplicaIncarnation(b.ID)})
	}
	if err := changeISR(t, s, joined); err != nil {
		t.Fatal(err)
	}
	if err := elect(); err != nil {
		t.Error(err)
	}
	if p := s.partitionOf("orders"); p.Leader != preferred {
		t.Errorf("got partition %+v, want leader %d", p, preferred)
	}
	if err := s.ElectPreferred(t.Context(),
		[]metadata.PartitionRef{{Topic: "none"}})[0]; !errors.Is(err,
		metadata.ErrUnknownPartition) {
		t.Error(err)
	}
}

func TestImageHasTheAdminPolicy(t *testing.T) {
	s := openAltered(t, 1)
	cluster := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{AdminAPI: v1alpha1.AdminReadOnly,
		AutoCreateTopics: new(true)}}
	cluster.Name = "demo"
	if s.Image().Policy != (metadata.AdminPolicy{}) {
		t.Error("a cluster without a manifest has a policy")
	}
	if err := s.Sync(cluster, 1, nil); err != nil {
		t.Fatal(err)
	}
	if want := (metadata.AdminPolicy{ReadOnly: true, AutoCreate: true}); s.Image().Policy != want {
		t.Errorf("got policy %+v, want %+v", s.Image().Policy, want)
	}
}

// replicasOf returns the replicas of each of a topic's partitions.
func replicasOf(s *Store, topic string) (all [][]int32) {
	if found := s.Image().Topic(topic); found != nil {
		for _, p := range found.Partitions {
			all = append(all, p.Replicas)
		}
	}
	return all
}

// TestReplicasAreAssignedManually checks the validation and the use of replicas that a client
// assigns. Brokers 0 to 2 exist, and broker 2 is down.
func TestReplicasAreAssignedManually(t *testing.T) {
	s := openAltered(t, 3)
	defer run(t, s, 0, 1)()
	ctx := t.Context()
	placed := metadata.NewTopic{Name: "placed", Partitions: 3, Replicas: 2,
		Assignment: [][]int32{{1, 0}, {2, 1}, {0, 1}}, Validate: true}
	if _, err := s.CreateTopic(ctx, placed); err != nil || s.Image().Topic("placed") != nil {
		t.Fatalf("with Validate: error %v, or the topic was created", err)
	}
	placed.Validate = false
	if _, err := s.CreateTopic(ctx, placed); err != nil {
		t.Fatal(err)
	}
	if p := s.Image().Topic("placed").Partitions[1]; p.Leader != 1 {
		t.Errorf("partition 1 has leader %d, want 1, because broker 2 is down", p.Leader)
	}
	more := metadata.NewPartitions{Name: "placed", Count: 5, Assignment: [][]int32{{0, 2}, {1, 2}}}
	check := more
	check.Validate = true
	if err := errors.Join(s.CreatePartitions(ctx, check), s.CreatePartitions(ctx, more)); err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePartitions(ctx,
		metadata.NewPartitions{Name: "placed", Count: 6}); err != nil {
		t.Fatal(err)
	}
	want := [][]int32{{1, 0}, {2, 1}, {0, 1}, {0, 2}, {1, 2}}
	if got := replicasOf(s, "placed"); len(got) != 6 ||
		!slices.EqualFunc(got[:5], want, slices.Equal) || len(got[5]) != 2 {
		t.Errorf("replicas %v, want %v and two others", got, want)
	}
	for _, err := range []error{
		s.CreatePartitions(ctx, metadata.NewPartitions{Name: "placed", Count: 7,
			Assignment: [][]int32{{0}}}),
		s.CreatePartitions(ctx, metadata.NewPartitions{Name: "placed", Count: 7,
			Assignment: [][]int32{{0, 3}}}),
		create(s, metadata.NewTopic{Name: "down", Partitions: 1, Replicas: 1,
			Assignment: [][]int32{{2}}}),
		create(s, metadata.NewTopic{Name: "none", Partitions: 1, Replicas: 1,
			Assignment: [][]int32{{3}}}),
	} {
		if !errors.Is(err, metadata.ErrInvalidAssignment) {
			t.Errorf("error %v, want ErrInvalidAssignment", err)
		}
	}
}

func create(s *Store, t metadata.NewTopic) error {
	_, err := s.CreateTopic(context.Background(), t)
	return err
}

// TestInitialReplicasOfAManifest checks that entries of initialReplicas are used when their
// partitions are created, and that all other partitions are placed automatically.
func TestInitialReplicasOfAManifest(t *testing.T) {
	entries := `initialReplicas: [{partition: 1, replicas: [2, 1]}, {partition: 3, replicas: [2, 0]}]`
	s := openAltered(t, 3, topics(t, `a {partitions: 3, replicas: 2, `+entries+`}`)...)
	check := func(count int) {
		t.Helper()
		got := replicasOf(s, "a")
		if len(got) != count || !slices.Equal(got[1], []int32{2, 1}) ||
			count > 3 && !slices.Equal(got[3], []int32{2, 0}) {
			t.Errorf("replicas %v, want those of the entries", got)
		}
		for _, ids := range got {
			if len(ids) != 2 || ids[0] == ids[1] {
				t.Errorf("replicas %v, want two on each partition", got)
			}
		}
	}
	check(3)
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 5, replicas: 2, `+entries+`}`)); err != nil {
		t.Fatal(err)
	}
	check(5)
	err := s.Sync(nil, 3, topics(t, `a {partitions: 5, replicas: 2, `+entries+`}`,
		`b {partitions: 1, initialReplicas: [{partition: 0, replicas: [7]}]}`))
	if want := "spec.initialReplicas[0].replicas: Invalid value: [7]: invalid replica assignment: " +
		"broker 7 does not exist (Topic/b)"; err == nil || err.Error() != want {
		t.Errorf("got fault %v\nwant %s", err, want)
	}
}

// TestDefaultNumberOfPartitions checks that a change of the default number does not affect existing
// topics.
func TestDefaultNumberOfPartitions(t *testing.T) {
	fs := memory(t)
	s := open(t, fs)
	sync := func(defaults string, lines ...string) {
		t.Helper()
		if err := s.Sync(logCluster(t, `{topicDefaults: {partitions: `+defaults+`}}`), 3,
			topics(t, lines...)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want map[string]int) {
		t.Helper()
		for name, count := range want {
			if got := len(replicasOf(s, name)); got != count {
				t.Errorf("%s has %d partitions, want %d", name, got, count)
			}
		}
	}
	sync("6", "a {}", "b {partitions: 2}", "offsets {topicName: __consumer_offsets}")
	if err := create(s, metadata.NewTopic{Name: "c", Partitions: -1, Replicas: -1}); err != nil {
		t.Fatal(err)
	}
	expect(map[string]int{"a": 6, "b": 2, "c": 6, "__consumer_offsets": 50})
	sync("4", "a {}", "b {}", "d {}", "offsets {topicName: __consumer_offsets}")
	want := map[string]int{"a": 6, "b": 2, "c": 6, "d": 4, "__consumer_offsets": 50}
	expect(want)
	s = open(t, fs)
	sync("9", "a {}", "b {}", "c {}", "d {}", "offsets {topicName: __consumer_offsets}")
	expect(want)
}
