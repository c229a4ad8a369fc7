package metadata

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func setting(name, value string) PropertyChange {
	return PropertyChange{Name: name, Op: PropertySet, Value: value}
}

func alterCluster(t *testing.T, cluster *v1alpha1.LogCluster,
	properties ...PropertyChange) *v1alpha1.LogCluster {
	t.Helper()
	altered, err := AlteredCluster(cluster, ClusterChange{Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	return altered
}

// values contains, for each alterable setting, a valid value other than the default.
var values = map[string]string{
	"auto.create.topics.enable": "true", "compression.gzip.level": "3",
	"compression.lz4.level": "4", "compression.type": "zstd", "compression.zstd.level": "5",
	"default.replication.factor": "3", "group.consumer.heartbeat.interval.ms": "2000",
	"group.consumer.assignment.interval.ms":    "0",
	"group.consumer.max.heartbeat.interval.ms": "20000",
	"group.consumer.max.session.timeout.ms":    "90000",
	"group.consumer.min.heartbeat.interval.ms": "3000",
	"group.consumer.min.session.timeout.ms":    "40000",
	"group.consumer.session.timeout.ms":        "30000", "group.initial.rebalance.delay.ms": "0",
	"group.max.session.timeout.ms": "60000", "group.max.size": "10",
	"group.min.session.timeout.ms": "1000", "log.cleaner.dedupe.buffer.size": "2097152",
	"log.cleaner.delete.retention.ms": "1000", "log.cleaner.io.max.bytes.per.second": "4096.0",
	"log.cleaner.max.compaction.lag.ms": "7000", "log.cleaner.min.cleanable.ratio": "0.25",
	"log.cleaner.min.compaction.lag.ms": "6000", "log.cleaner.threads": "2",
	"log.cleanup.policy": "compact", "log.flush.interval.messages": "1",
	"log.flush.interval.ms": "2000", "log.index.interval.bytes": "1024",
	"log.index.size.max.bytes": "4096", "log.message.timestamp.after.max.ms": "5000",
	"log.message.timestamp.before.max.ms": "4000", "log.message.timestamp.type": "LogAppendTime",
	"log.preallocate": "true", "log.retention.bytes": "1000", "log.retention.ms": "3000",
	"log.roll.jitter.ms": "100", "log.roll.ms": "8000", "log.segment.bytes": "1048576",
	"log.segment.delete.delay.ms": "10", "message.max.bytes": "2000", "max.decompressed.message.bytes": "3000",
	"min.insync.replicas": "2",
	"num.partitions":      "6", "offset.metadata.max.bytes": "100", "offsets.retention.check.interval.ms": "1000",
	"offsets.retention.minutes": "5", "offsets.topic.num.partitions": "3",
	"offsets.topic.replication.factor": "2", "replica.lag.time.max.ms": "2000",
	"transaction.max.timeout.ms": "60000", "transaction.state.log.num.partitions": "3",
	"transaction.state.log.replication.factor": "2", "transactional.id.expiration.ms": "3600000",
	"unclean.leader.election.enable": "true",
}

// TestDefaultIsStoredWhenSetExplicitly checks that a broker setting that is explicitly set to its
// default counts as set. DescribeConfigs then names the LogCluster as its source, as in Kafka. The
// exceptions are the levels of codecs that the LogCluster does not select, and the unlimited rate,
// which has no field.
func TestDefaultIsStoredWhenSetExplicitly(t *testing.T) {
	for _, p := range brokerconfig.All() {
		if !p.Alterable() || p.Default == "" || strings.HasSuffix(p.Name, ".level") ||
			p.Name == "log.cleaner.io.max.bytes.per.second" {
			continue
		}
		if got := ClusterProperties(alterCluster(t, &v1alpha1.LogCluster{},
			setting(p.Name, p.Default))); got[p.Name] != p.Default {
			t.Errorf("%s=%s: got settings %v", p.Name, p.Default, got)
		}
	}
}

func TestEachAlterableSettingIsWrittenReadAndReset(t *testing.T) {
	for _, p := range brokerconfig.All() {
		if !p.Alterable() {
			continue
		}
		value, ok := values[p.Name]
		if !ok {
			t.Errorf("values has no value of %s", p.Name)
			continue
		}
		change := []PropertyChange{setting(p.Name, value)}
		want := map[string]string{p.Name: value}
		if codec, isLevel := strings.CutPrefix(p.Name, "compression."); isLevel &&
			strings.HasSuffix(codec, ".level") {
			want["compression.type"] = strings.TrimSuffix(codec, ".level")
			change = append(change, setting("compression.type", want["compression.type"]))
		}
		altered := alterCluster(t, &v1alpha1.LogCluster{}, change...)
		got := ClusterProperties(altered)
		if !maps.Equal(got, want) {
			t.Errorf("%s: got settings %v, want %v", p.Name, got, want)
		}
		if !HasChange(got, ClusterChange{Properties: change}) ||
			HasChange(nil, ClusterChange{Properties: change}) && len(change) == 1 {
			t.Errorf("%s: HasChange is wrong", p.Name)
		}
		var deletions []PropertyChange
		for _, c := range change {
			deletions = append(deletions, PropertyChange{Name: c.Name, Op: PropertyDelete})
		}
		if reset := alterCluster(t, altered, deletions...); !reflect.DeepEqual(reset,
			&v1alpha1.LogCluster{}) {
			t.Errorf("%s: got %+v after the deletion, want an empty LogCluster", p.Name, reset.Spec)
		}
	}
}

// TestSettingIsStoredWithItsDefault checks that a topic default that is explicitly set to its
// default value is then described as set.
func TestSettingIsStoredWithItsDefault(t *testing.T) {
	for _, p := range topicconfig.Default().Properties() {
		name := brokerconfig.OfTopic(p.Name).Name
		if strings.HasSuffix(name, ".level") {
			continue // this is the level of a codec that the LogCluster does not select
		}
		altered := alterCluster(t, &v1alpha1.LogCluster{}, setting(name, p.Value))
		if got := ClusterProperties(altered)[name]; got != p.Value {
			t.Errorf("%s: got %q, want %q", name, got, p.Value)
		}
		if settings, err := ResolveSettings(altered.Spec.TopicDefaults.TopicSettings,
			nil); err != nil ||
			settings != topicconfig.Default() {
			t.Errorf("%s: got settings %+v and error %v, want the defaults", name, settings, err)
		}
	}
}

func TestAlteredClusterKeepsOtherFields(t *testing.T) {
	cluster := &v1alpha1.LogCluster{}
	cluster.Spec.Brokers, cluster.Spec.Image = 3, "registry.example/heartwood"
	cluster.Spec.Cleaner = &v1alpha1.Cleaner{Workers: new(int32(4))}
	altered := alterCluster(t, cluster, setting("log.cleaner.dedupe.buffer.size", "1048576"),
		setting("log.retention.ms", "1000"))
	if altered.Spec.Brokers != 3 || altered.Spec.Image != cluster.Spec.Image ||
		*altered.Spec.Cleaner.Workers != 4 || altered.Spec.Cleaner.Memory.Value() != 1<<20 {
		t.Errorf("got %+v", altered.Spec)
	}
	if cluster.Spec.TopicDefaults != nil || cluster.Spec.Cleaner.Memory != nil {
		t.Error("the LogCluster itself was changed")
	}
	replaced, err := AlteredCluster(altered, ClusterChange{Replace: true,
		Properties: []PropertyChange{setting("group.max.size", "5")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := ClusterProperties(replaced); !maps.Equal(got, map[string]string{"group.max.size": "5"}) {
		t.Errorf("got %v after a replacement, want group.max.size only", got)
	}
	if replaced.Spec.Brokers != 3 {
		t.Error("the replacement changed a field without a Kafka name")
	}
}

func TestInvalidChangesOfTheCluster(t *testing.T) {
	for _, test := range []struct {
		text    string
		changes []PropertyChange
		want    error
	}{
		{"not an integer", []PropertyChange{setting("log.retention.ms", "abc")}, ErrInvalidProperty},
		{"not a whole number", []PropertyChange{setting("group.max.size", "abc")},
			ErrInvalidProperty},
		{"out of range", []PropertyChange{setting("replica.lag.time.max.ms", "1")},
			ErrInvalidProperty},
		{"[broker.rack]: the setting is read-only; it depends on spec.rackKey",
			[]PropertyChange{setting("broker.rack", "a")}, ErrInvalidProperty},
		{"[nonsense]: the setting is unknown", []PropertyChange{setting("nonsense", "a")},
			ErrInvalidProperty},
		{"more than once", []PropertyChange{setting("log.retention.ms", "1"),
			setting("log.retention.ms", "2")}, ErrInvalidProperty},
		{"append is not allowed", []PropertyChange{{Name: "group.max.size", Op: PropertyAppend,
			Value: "1"}}, ErrInvalidSettings},
		{"append is not allowed", []PropertyChange{{Name: "min.insync.replicas",
			Op: PropertyAppend, Value: "1"}}, ErrInvalidSettings},
	} {
		_, err := AlteredCluster(&v1alpha1.LogCluster{}, ClusterChange{Properties: test.changes})
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%v: got error %v, want %v with %q", test.changes, err, test.want, test.text)
		}
	}
	if _, err := AlteredCluster(&v1alpha1.LogCluster{}, ClusterChange{Properties: []PropertyChange{
		{Name: "nonsense", Op: PropertyDelete}, {Name: "broker.rack", Op: PropertyDelete},
	}}); err != nil {
		t.Error("deletion of settings that are not set:", err)
	}
}

func TestListsAreAppendedTo(t *testing.T) {
	altered := alterCluster(t, &v1alpha1.LogCluster{}, PropertyChange{
		Name: "log.cleanup.policy", Op: PropertyAppend, Value: "compact"})
	if got := altered.Spec.TopicDefaults.CleanupPolicy; got != v1alpha1.CleanupDeleteCompact {
		t.Errorf("got policy %q", got)
	}
}

// TestFieldsOfTopicDefaults checks that the paths in package brokerconfig are the same as in the
// table fields.
func TestFieldsOfTopicDefaults(t *testing.T) {
	for topic, path := range fields {
		want := "spec.topicDefaults." + strings.Join(path, ".")
		p := brokerconfig.OfTopic(topic)
		if p == nil {
			t.Errorf("no broker setting is the default of %s", topic)
		} else if got := p.Field; got != want && !strings.HasPrefix(got, want+".") {
			t.Errorf("%s: got field %s, want %s", p.Name, got, want)
		}
	}
}

func TestTopicsStayValid(t *testing.T) {
	before, topic := clusterWith(v1alpha1.TopicSettings{Replicas: new(int32(3))}), &v1alpha1.Topic{}
	topic.Name = "orders"
	topic.Spec.MinInSyncReplicas = new(int32(2))
	after := alterCluster(t, before, setting("default.replication.factor", "1"))
	err := CheckTopics([]*v1alpha1.Topic{topic}, before, after)
	if !errors.Is(err, ErrInvalidSettings) || !strings.Contains(err.Error(), `topic "orders"`) {
		t.Errorf("got error %v", err)
	}
	if err := CheckTopics([]*v1alpha1.Topic{topic}, after, after); err != nil {
		t.Error("the topic was invalid before:", err)
	}
}
