package metadata

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func TestTopicResourceOfAKafkaRequest(t *testing.T) {
	for _, test := range []struct {
		name    string
		request NewTopic
		cluster *v1alpha1.LogCluster
		want    string
	}{
		{
			"the cluster's defaults are left out",
			NewTopic{Name: "orders", Partitions: -1, Replicas: -1},
			clusterWith(settingsOf(t, everything)),
			`{metadata: {name: orders}, spec: {cluster: demo, partitions: 1, reclaimPolicy: Delete}}`,
		},
		{
			"a name that is not a DNS name", NewTopic{Name: "My_Topic", Partitions: 3, Replicas: 1},
			nil,
			`{metadata: {name: my-topic-36e68ddf}, spec: {cluster: demo, topicName: My_Topic, partitions: 3, replicas: 1, reclaimPolicy: Delete}}`,
		},
		{
			"properties", NewTopic{Name: "t", Partitions: 1, Replicas: -1,
				Properties: map[string]string{
					"cleanup.policy": "compact", "compression.type": "zstd",
					"compression.zstd.level": "7", "segment.ms": "1000",
				}}, nil,
			`{metadata: {name: t}, spec: {cluster: demo, partitions: 1, reclaimPolicy: Delete, cleanupPolicy: Compact,
			  compression: {type: zstd, level: 7}, segment: {maxAge: 1s}}}`,
		},
		{
			"properties that equal the cluster's defaults are written",
			NewTopic{Name: "t", Partitions: 1, Replicas: -1, Properties: map[string]string{
				"retention.ms": "172800000", "cleanup.policy": "compact,delete",
				"segment.bytes": "67108864", "flush.messages": "1",
			}}, clusterWith(settingsOf(t, everything)),
			`{metadata: {name: t}, spec: {cluster: demo, partitions: 1, reclaimPolicy: Delete,
			  cleanupPolicy: CompactDelete, retention: {time: 48h}, segment: {size: 64Mi},
			  durability: Fsync}}`,
		},
		{
			"Kafka's default is written where the cluster has another",
			NewTopic{Name: "t", Partitions: 1, Replicas: -1, Properties: map[string]string{
				"compression.type": "producer", "max.compaction.lag.ms": "9223372036854775807",
				"cleanup.policy": "delete",
			}}, clusterWith(settingsOf(t, everything)),
			`{metadata: {name: t}, spec: {cluster: demo, partitions: 1, reclaimPolicy: Delete, cleanupPolicy: Delete,
			  compaction: {maxLag: 999999h}, compression: {type: producer}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := TopicResource(test.request, "demo", withoutMinInSync(test.cluster))
			if err != nil {
				t.Fatal(err)
			}
			want := &v1alpha1.Topic{}
			if err := yaml.Unmarshal([]byte(`{apiVersion: heartwood.dev/v1alpha1, kind: Topic, `+
				test.want[1:]), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resource (-want +got):\n%s", diff)
			}
		})
	}
}

func withoutMinInSync(cluster *v1alpha1.LogCluster) *v1alpha1.LogCluster {
	if cluster != nil {
		cluster.Spec.TopicDefaults.MinInSyncReplicas = nil
	}
	return cluster
}

func TestTopicResourceRejectsInvalidRequests(t *testing.T) {
	for _, test := range []struct {
		request NewTopic
		kind    error
		words   string
	}{
		{NewTopic{Name: "a b", Partitions: 1, Replicas: 1}, ErrInvalidTopicName, `"a b"`},
		{NewTopic{Name: "t", Partitions: 0, Replicas: 1}, ErrInvalidPartitions,
			"0 is not in [1, 10000]"},
		{NewTopic{Name: "t", Partitions: -2, Replicas: 1}, ErrInvalidPartitions, "-2"},
		{NewTopic{Name: "t", Partitions: 10001, Replicas: 1}, ErrInvalidPartitions, "10001"},
		{NewTopic{Name: "t", Partitions: 1, Replicas: 0}, ErrInvalidReplication, "0 is below 1"},
		{NewTopic{Name: "t", Partitions: 1, Replicas: 1,
			Properties: map[string]string{"segment.bytes": "1"}}, ErrInvalidSettings,
			"segment.bytes"},
		{NewTopic{Name: "t", Partitions: 1, Replicas: 1,
			Properties: map[string]string{"no.such": "1"}}, ErrInvalidSettings, "no.such"},
		{NewTopic{Name: "t", Partitions: 1, Replicas: 1,
			Properties: map[string]string{"min.insync.replicas": "2"}}, ErrInvalidSettings,
			"min.insync.replicas (2) is above the number of replicas (1)"},
	} {
		_, err := TopicResource(test.request, "demo", nil)
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%+v:\n got %v\nwant %v with %q", test.request, err, test.kind, test.words)
		}
	}
}

// TestDurationsFitTheSchema checks that durations that are too long for the CRD are written as
// topicconfig.DurationMax. Kafka allows durations of 292 million years, but the CRD allows only six
// digits of hours.
func TestDurationsFitTheSchema(t *testing.T) {
	for property, field := range map[string]func(v1alpha1.TopicSettings) time.Duration{
		"delete.retention.ms":   func(s v1alpha1.TopicSettings) time.Duration { return s.Compaction.TombstoneRetention.Duration },
		"min.compaction.lag.ms": func(s v1alpha1.TopicSettings) time.Duration { return s.Compaction.MinLag.Duration },
		"segment.ms":            func(s v1alpha1.TopicSettings) time.Duration { return s.Segment.MaxAge.Duration },
	} {
		topic, err := TopicResource(NewTopic{Name: "t", Partitions: 1, Replicas: 1,
			Properties: map[string]string{property: "9223372036854775807"}}, "demo", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := field(topic.Spec.TopicSettings); got != topicconfig.DurationMax {
			t.Errorf("%s in the resource: got %s, want %s", property, got, topicconfig.DurationMax)
		}
	}
}

// TestInternalTopicsHaveReplicas checks that, by default, an internal topic has three replicas, or
// one per broker in a smaller cluster. With three brokers, min.insync.replicas must tolerate the
// loss of one.
func TestInternalTopicsHaveReplicas(t *testing.T) {
	for brokers, want := range map[int32]string{0: "1 1", 1: "1 1", 2: "2 1", 3: "3 2", 9: "3 2"} {
		request := NewTopic{Name: "__consumer_offsets", Partitions: 50, Replicas: -1}
		got := WithInternalDefaults(request, brokers, nil)
		if text := fmt.Sprint(got.Replicas, " ",
			got.Properties["min.insync.replicas"]); text != want {
			t.Errorf("%d brokers: replicas and min.insync.replicas: got %s, want %s", brokers, text, want)
		}
	}
	own := NewTopic{Name: "orders", Replicas: -1}
	if got := WithInternalDefaults(own, 3, nil); got.Replicas != -1 || got.Properties != nil {
		t.Errorf("a topic that is not internal was changed: %+v", got)
	}
	if got := WithInternalDefaults(NewTopic{Name: OffsetsTopic, Partitions: -1, Replicas: -1}, 1,
		nil); got.Partitions != 50 {
		t.Errorf("%d partitions, want 50", got.Partitions)
	}
	var cluster v1alpha1.LogCluster
	if err := yaml.Unmarshal([]byte(`spec: {groups: {offsetsTopic: {partitions: 7, replicas: 2}}}`),
		&cluster); err != nil {
		t.Fatal(err)
	}
	got := WithInternalDefaults(NewTopic{Name: OffsetsTopic, Partitions: -1, Replicas: -1}, 3,
		&cluster)
	if got.Partitions != 7 || got.Replicas != 2 || got.Properties["min.insync.replicas"] != "1" {
		t.Errorf("with the LogCluster's settings: %+v", got)
	}
	if got = WithInternalDefaults(NewTopic{Name: "__transaction_state", Partitions: -1,
		Replicas: -1}, 3, &cluster); got.Partitions != 50 || got.Replicas != 3 {
		t.Errorf("__transaction_state: got %+v, want 50 partitions and 3 replicas", got)
	}
}
