package kube

import (
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// testAlterTopics checks that a Kafka client can change a Topic that was created as a resource, and
// that only the named properties change.
func testAlterTopics(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	f.topic("orders", 1)
	b.until("topic delivered", func(i *metadata.Image) bool { return i.Topic("orders") != nil })
	ctx := f.t.Context()
	set := func(name, value string) metadata.TopicChange {
		return metadata.TopicChange{Name: "orders",
			Properties: []metadata.PropertyChange{{Name: name, Value: value}}}
	}
	validate := set("retention.ms", "1000")
	validate.Validate = true
	before, topic := &v1alpha1.Topic{}, &v1alpha1.Topic{}
	f.get("orders", before)
	if err := b.AlterTopic(ctx, validate); err != nil {
		f.t.Error(err)
	}
	if f.get("orders", topic); topic.ResourceVersion != before.ResourceVersion {
		f.t.Error("AlterTopic with Validate changed the resource")
	}
	// Each of these changes is based on the previous change's result, which the watch may not have
	// delivered yet.
	if err := errors.Join(b.AlterTopic(ctx, set("retention.ms", "1000")),
		b.AlterTopic(ctx, set("segment.jitter.ms", "2000")),
		b.CreatePartitions(ctx, metadata.NewPartitions{Name: "orders", Count: 3})); err != nil {
		f.t.Fatal(err)
	}
	f.get("orders", topic)
	if topic.Spec.Retention.Time.Seconds() != 1 || topic.Spec.Segment.Jitter.Seconds() != 2 ||
		topic.Spec.Partitions != 3 || topic.UID != before.UID {
		f.t.Errorf("the Topic's spec is %+v", topic.Spec)
	}
	for _, test := range []struct{ err, want error }{
		{b.AlterTopic(ctx, metadata.TopicChange{Name: "never"}), metadata.ErrTopicNotFound},
		{b.AlterTopic(ctx, set("no.such", "1")), metadata.ErrInvalidSettings},
		{b.CreatePartitions(ctx, metadata.NewPartitions{Name: "orders", Count: 3}),
			metadata.ErrInvalidPartitions},
	} {
		if !errors.Is(test.err, test.want) {
			f.t.Errorf("got error %v, want %v", test.err, test.want)
		}
	}
	testDefaultsThatAreSet(f, b)
	// The rules of the CRD reject invalid values that the broker does not check.
	if err := b.AlterTopic(ctx, set("max.message.bytes", "0")); !errors.Is(err,
		metadata.ErrInvalidSettings) || !strings.Contains(err.Error(), "spec.maxMessageSize") {
		f.t.Errorf("a value that the CRD rejects: got error %v, want ErrInvalidSettings", err)
	}
}

// testDefaultsThatAreSet checks that settings that were set to their defaults, through Kafka or by
// applying a manifest, are fields of the Topic, and are the topic's own settings in the image.
func testDefaultsThatAreSet(f *fixture, b *broker) {
	f.t.Helper()
	if err := b.AlterTopic(f.t.Context(), metadata.TopicChange{Name: "orders",
		Properties: []metadata.PropertyChange{{Name: "retention.ms", Value: "604800000"},
			{Name: "segment.jitter.ms", Value: "0"},
			{Name: "unclean.leader.election.enable", Value: "false"}}}); err != nil {
		f.t.Fatal(err)
	}
	topic := &v1alpha1.Topic{}
	f.get("orders", topic)
	topic.Spec.Compaction = &v1alpha1.Compaction{MinLag: &metav1.Duration{}}
	topic.Spec.CleanupPolicy = v1alpha1.CleanupDelete
	if err := f.client.Update(f.t.Context(), topic); err != nil {
		f.t.Fatal(err)
	}
	want := []string{"cleanup.policy", "min.compaction.lag.ms", "retention.ms",
		"segment.jitter.ms", "unclean.leader.election.enable"}
	b.until("own properties delivered", func(i *metadata.Image) bool {
		return slices.Equal(i.Topic("orders").Own, want)
	})
}

// testAlterCluster checks that a Kafka client can change settings of the LogCluster. Only the named
// fields must change, and the CRD's rules must apply.
func testAlterCluster(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	ctx := f.t.Context()
	set := func(name, value string) metadata.ClusterChange {
		return metadata.ClusterChange{
			Properties: []metadata.PropertyChange{{Name: name, Value: value}}}
	}
	before, cluster := &v1alpha1.LogCluster{}, &v1alpha1.LogCluster{}
	f.get("demo", before)
	validate := set("log.retention.ms", "1000")
	validate.Validate = true
	if err := b.AlterCluster(ctx, validate); err != nil {
		f.t.Error(err)
	}
	if f.get("demo", cluster); cluster.ResourceVersion != before.ResourceVersion {
		f.t.Error("AlterCluster with Validate changed the resource")
	}
	// The second change is based on the first change's result, which the watch may not have delivered
	// yet.
	if err := errors.Join(b.AlterCluster(ctx, set("log.retention.ms", "1000")),
		b.AlterCluster(ctx, set("group.max.size", "7"))); err != nil {
		f.t.Fatal(err)
	}
	b.until("settings delivered", func(i *metadata.Image) bool {
		return i.ClusterProperties["log.retention.ms"] == "1000" &&
			i.ClusterProperties["group.max.size"] == "7" && i.Groups.MembersMax == 7 &&
			i.Defaults.RetentionTime.Seconds() == 1
	})
	f.get("demo", cluster)
	if cluster.Spec.Brokers != before.Spec.Brokers ||
		cluster.Spec.Storage.Size.Cmp(before.Spec.Storage.Size) != 0 {
		f.t.Errorf("other fields have changed: %+v", cluster.Spec)
	}
	if err := b.AlterCluster(ctx, set("no.such", "1")); !errors.Is(err,
		metadata.ErrInvalidProperty) {
		f.t.Errorf("unknown setting: got error %v", err)
	}
	// The CRD's rule compares the default with spec.brokers, which the broker itself does not check.
	for _, invalid := range []metadata.ClusterChange{validate,
		set("default.replication.factor", "15")} {
		invalid.Properties[0] = metadata.PropertyChange{Name: "default.replication.factor",
			Value: "15"}
		if err := b.AlterCluster(ctx, invalid); !errors.Is(err, metadata.ErrInvalidSettings) ||
			!strings.Contains(err.Error(), "topicDefaults.replicas") {
			f.t.Errorf("a value that the CRD rejects: got error %v", err)
		}
	}
}

// testAlterGroups checks that a Kafka client can change group configs, which are stored in the
// LogCluster.
func testAlterGroups(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	alter := func(group, value string, op metadata.PropertyOp) error {
		return b.AlterCluster(f.t.Context(), metadata.ClusterChange{Group: group,
			Properties: []metadata.PropertyChange{
				{Name: "consumer.session.timeout.ms", Op: op, Value: value}}})
	}
	// The second change is based on the first change's result.
	if err := errors.Join(alter("a b", "50000", metadata.PropertySet),
		alter("c", "60000", metadata.PropertySet)); err != nil {
		f.t.Fatal(err)
	}
	b.until("settings delivered", func(i *metadata.Image) bool {
		return i.GroupOverrides["a b"].ConsumerSession == 50*time.Second &&
			i.GroupOverrides["c"].ConsumerSession == time.Minute
	})
	if err := alter("c", "44999", metadata.PropertySet); !errors.Is(err,
		metadata.ErrInvalidSettings) {
		f.t.Errorf("below the minimum: got error %v", err)
	}
	cluster := &v1alpha1.LogCluster{}
	if f.get("demo", cluster); len(cluster.Spec.Groups.Overrides) != 2 {
		f.t.Errorf("got overrides %+v", cluster.Spec.Groups.Overrides)
	}
	if err := alter("c", "", metadata.PropertyDelete); err != nil {
		f.t.Fatal(err)
	}
	b.until("deletion delivered", func(i *metadata.Image) bool { return len(i.GroupOverrides) == 1 })
}
