package local

import (
	"errors"
	"slices"
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

// TestTopicsOfManifestsCannotBeAltered: see ADR 0160.
func TestTopicsOfManifestsCannotBeAltered(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Name, topic.Spec.Partitions = "orders", 1
	s := openAltered(t, 1, topic)
	for _, err := range []error{
		s.AlterTopic(t.Context(),
			metadata.TopicChange{Name: "orders", Properties: setProperty("retention.ms", "1")}),
		s.CreatePartitions(t.Context(), metadata.NewPartitions{Name: "orders", Count: 5}),
	} {
		if !errors.Is(err, metadata.ErrPolicy) {
			t.Error(err)
		}
	}
}

func (s *Store) partitionOf(topic string) *metadata.Partition {
	return s.Image().Topic(topic).Partitions[0]
}

func TestReassign(t *testing.T) {
	s := openAltered(t, 3)
	startAll(t, s, 3)
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 1, Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(s.partitionOf("orders").Replicas)
	other := 3 - before[0] - before[1]
	move := func(replicas ...int32) error {
		return s.Reassign(t.Context(), []metadata.Move{{Topic: "orders", Replicas: replicas}})[0]
	}
	for _, bad := range [][]int32{{0}, {0, 0}, {0, 7}, {0, 1, 2}, {-1, 0}, {}} {
		if err := s.Reassign(t.Context(),
			[]metadata.Move{{Topic: "orders",
				Replicas: append([]int32{}, bad...)}})[0]; !errors.Is(err,
			metadata.ErrInvalidAssignment) {
			t.Errorf("reassignment to %v: got error %v, want ErrInvalidAssignment", bad, err)
		}
	}
	if err := move(); !errors.Is(err, metadata.ErrNoReassignment) {
		t.Errorf("cancel without a reassignment: got error %v, want ErrNoReassignment", err)
	}
	if err := s.Reassign(t.Context(),
		[]metadata.Move{{Topic: "orders", Partition: 1}})[0]; !errors.Is(err,
		metadata.ErrUnknownPartition) {
		t.Error(err)
	}
	if err := move(before[1], other); err != nil {
		t.Fatal(err)
	}
	p := s.partitionOf("orders")
	adding, removing := p.Moving()
	if !slices.Equal(adding, []int32{other}) || !slices.Equal(removing, before[:1]) ||
		len(p.Replicas) != 3 {
		t.Fatalf(
			"during the reassignment: got partition %+v, adding %v, removing %v",
			p,
			adding,
			removing,
		)
	}
	if err := move(); err != nil { // no replicas: cancels the reassignment
		t.Fatal(err)
	}
	if p = s.partitionOf("orders"); !slices.Equal(p.Replicas, before) || p.Target != nil {
		t.Errorf("after the cancellation: got %+v, want replicas %v", p, before)
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
		AutoCreateTopics: true}}
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
