package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// These are values of API fields for which package v1alpha1 has no constants.
const (
	compressionProducer v1alpha1.CompressionType = "producer"
	compressionNone     v1alpha1.CompressionType = "uncompressed"
	timestampCreate     v1alpha1.TimestampType   = "CreateTime"
	timestampLogAppend  v1alpha1.TimestampType   = "LogAppendTime"
)

// partitionsMax is the Topic schema's limit for spec.partitions.
const partitionsMax = 10000

// TopicResource returns the Topic resource for the topic that a Kafka admin client creates in the
// cluster named clusterName. cluster contains the default settings and may be nil. TopicResource
// checks everything that does not depend on other topics or on brokers. Its errors are those of
// Admin.CreateTopic.
func TopicResource(t NewTopic, clusterName string, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic,
	error) {
	if err := CheckTopicName(t.Name); err != nil {
		return nil, err
	}
	topic := &v1alpha1.Topic{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Topic"},
		ObjectMeta: metav1.ObjectMeta{Name: ResourceName(t.Name)},
		Spec: v1alpha1.TopicSpec{Cluster: clusterName, Partitions: t.Partitions,
			ReclaimPolicy: v1alpha1.ReclaimDelete},
	}
	topic.Spec.InitialReplicas = initialReplicas(t.Assignment, 0)
	if topic.Name != t.Name {
		topic.Spec.TopicName = t.Name
	}
	if t.Partitions == -1 {
		topic.Spec.Partitions = NewTopicPartitions(t.Name, cluster)
	}
	if topic.Spec.Partitions < 1 || topic.Spec.Partitions > partitionsMax {
		return nil, fmt.Errorf("%w: %d is not in [1, %d]", ErrInvalidPartitions, t.Partitions,
			partitionsMax)
	}
	settings, err := propertySettings(t.Properties, cluster)
	if err != nil {
		return nil, err
	}
	topic.Spec.TopicSettings = settings
	if err := CheckInternal(topic, nil); err != nil {
		return nil, err
	}
	topic.Spec.TopicSettings = internalSettings(topic)
	return topic, setReplicas(topic, t.Replicas, cluster)
}

// These are Kafka's defaults for internal topics: offsets.topic.replication.factor and
// offsets.topic.num.partitions. A cluster with fewer brokers gets fewer replicas.
const (
	internalReplicas   = 3
	internalPartitions = 50
)

// WithInternalDefaults sets an internal topic's number of partitions, number of replicas and
// min.insync.replicas if the request leaves them to the defaults. With the defaults, a cluster of
// three or more brokers tolerates the loss of one broker. brokers is the number of brokers, up or
// down. Other topics are returned unchanged.
func WithInternalDefaults(t NewTopic, brokers int32, cluster *v1alpha1.LogCluster) NewTopic {
	if !InternalTopic(t.Name) {
		return t
	}
	if t.Partitions == -1 {
		t.Partitions = NewTopicPartitions(t.Name, cluster)
	}
	if t.Replicas != -1 {
		return t
	}
	t.Replicas = max(1, min(internalReplicas, brokers))
	switch t.Name {
	case OffsetsTopic:
		t.Replicas = cmp.Or(ResolveGroups(cluster).OffsetsReplicas, t.Replicas)
	case TransactionsTopic:
		t.Replicas = cmp.Or(ResolveTransactions(cluster).Replicas, t.Replicas)
	}
	t.Properties = maps.Clone(t.Properties)
	if t.Properties == nil {
		t.Properties = map[string]string{}
	}
	if _, set := t.Properties["min.insync.replicas"]; !set {
		t.Properties["min.insync.replicas"] = strconv.Itoa(int(t.Replicas+1) / 2)
	}
	return t
}

// propertySettings converts Kafka's properties to the settings of a Topic resource. It writes each
// property, even if the value equals the cluster's default (ADR 0310). An error about an unknown or
// invalid property wraps ErrInvalidSettings.
func propertySettings(properties map[string]string,
	cluster *v1alpha1.LogCluster) (v1alpha1.TopicSettings, error) {
	changes := make([]PropertyChange, 0, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		changes = append(changes, PropertyChange{Name: name, Value: properties[name]})
	}
	return alteredSettings(v1alpha1.TopicSettings{}, changes, cluster)
}

// setReplicas sets the requested number of replicas; -1 leaves the number to the cluster's default.
// It checks the number, and that min.insync.replicas does not exceed it.
func setReplicas(topic *v1alpha1.Topic, replicas int32, cluster *v1alpha1.LogCluster) error {
	if replicas != -1 {
		if replicas < 1 {
			return fmt.Errorf("%w: %d is below 1", ErrInvalidReplication, replicas)
		}
		topic.Spec.Replicas = &replicas
	}
	replicaCount := Replicas(topic.Spec.TopicSettings, cluster)
	if inSync := topic.Spec.MinInSyncReplicas; inSync != nil && int(*inSync) > replicaCount {
		return fmt.Errorf("%w: min.insync.replicas (%d) is above the number of replicas (%d)",
			ErrInvalidSettings, *inSync, replicaCount)
	}
	return CheckReplicas(topic.Spec.TopicSettings, cluster)
}

// ResourceSettings returns settings as fields of a Topic resource. It writes every setting.
func ResourceSettings(s topicconfig.Settings) v1alpha1.TopicSettings {
	to := v1alpha1.TopicSettings{
		MinInSyncReplicas: new(int32(s.MinInSyncReplicas)),
		CleanupPolicy:     cleanupPolicy(s),
		Compaction: &v1alpha1.Compaction{
			MinDirtyPercent:    v1alpha1.PercentOf(s.MinDirtyPercent),
			MaxGarbagePercent:  new(int32(s.MaxGarbagePercent)),
			MinLag:             duration(s.MinLag),
			MaxLag:             maxLag(s.MaxLag),
			TombstoneRetention: duration(s.TombstoneRetention),
		},
		Compression: compression(s),
		Retention: &v1alpha1.Retention{Time: duration(s.RetentionTime),
			Size: size(s.RetentionBytes)},
		Segment: &v1alpha1.Segment{
			Size:          size(s.SegmentBytes),
			MaxAge:        duration(s.SegmentAge),
			Jitter:        duration(s.SegmentJitter),
			IndexSize:     size(int64(s.SegmentIndexBytes)),
			IndexInterval: size(int64(s.IndexIntervalBytes)),
		},
		MaxMessageSize: size(int64(s.MessageBytesMax)),
		MaxRecordSize:  size(int64(s.RecordBytesMax)),
		TimestampType:  timestampCreate,
		TimestampLimits: &v1alpha1.TimestampLimits{Past: duration(s.TimestampBeforeMax),
			Future: duration(s.TimestampAfterMax)},
		Durability:            v1alpha1.DurabilityReplicated,
		UncleanLeaderElection: &s.UncleanElection,
		WithoutEffect: &v1alpha1.WithoutEffect{
			FlushInterval:   duration(s.WithoutEffect.FlushInterval),
			FileDeleteDelay: duration(s.WithoutEffect.FileDeleteDelay),
			Preallocate:     &s.WithoutEffect.Preallocate,
		},
	}
	if s.TimestampType == record.LogAppendTime {
		to.TimestampType = timestampLogAppend
	}
	if s.Fsync {
		to.Durability = v1alpha1.DurabilityFsync
	}
	return to
}

// cleanupPolicy returns the schema's name for the cleanup policies in settings. Settings without a
// policy become CleanupDelete, because the schema cannot express them.
func cleanupPolicy(s topicconfig.Settings) v1alpha1.CleanupPolicy {
	switch {
	case s.Compact && s.Delete && s.DeleteFirst:
		return v1alpha1.CleanupDeleteCompact
	case s.Compact && s.Delete:
		return v1alpha1.CleanupCompactDelete
	case s.Compact:
		return v1alpha1.CleanupCompact
	default:
		return v1alpha1.CleanupDelete
	}
}

// compression converts all codecs and levels together, because ResolveSettings reads them together.
func compression(s topicconfig.Settings) *v1alpha1.Compression {
	c := &v1alpha1.Compression{Type: compressionProducer}
	if !s.KeepCodec {
		c.Type, c.Level = codec(s.Codec, s.CodecLevel)
	}
	if s.CleanCodec.Set {
		c.Clean = &v1alpha1.CleanCompression{}
		c.Clean.Type, c.Clean.Level = codec(s.CleanCodec.Codec, s.CleanCodec.Level)
	}
	return c
}

// codec returns the schema's name for a codec, and the level, or nil for a codec without levels.
func codec(c compress.Codec, level int) (v1alpha1.CompressionType, *int32) {
	if c == compress.None {
		return compressionNone, nil
	}
	if _, _, _, ok := c.Levels(); !ok {
		return v1alpha1.CompressionType(c.String()), nil
	}
	if level == compress.LevelDefault {
		level = topicconfig.DefaultLevel(c)
	}
	return v1alpha1.CompressionType(c.String()), new(int32(level))
}

// duration returns a duration as a field of the resource. An unlimited duration becomes -1s.
func duration(value time.Duration) *metav1.Duration {
	if value == topicconfig.Unlimited {
		value = -time.Second
	}
	return &metav1.Duration{Duration: value}
}

// maxLag converts max.compaction.lag.ms. The schema rejects -1s in this field, so an unlimited
// duration becomes DurationMax.
func maxLag(value time.Duration) *metav1.Duration {
	if value == topicconfig.Unlimited {
		value = topicconfig.DurationMax
	}
	return duration(value)
}

// size returns a number of bytes as a field of the resource.
func size(value int64) *resource.Quantity {
	return resource.NewQuantity(value, resource.BinarySI)
}

// nilIfZero returns a pointer to group, or nil if all fields of group are empty.
func nilIfZero[T comparable](group T) *T {
	var zero T
	if group == zero {
		return nil
	}
	return &group
}
