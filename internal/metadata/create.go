package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Values of API fields for which package v1alpha1 has no constants.
const (
	compressionProducer v1alpha1.CompressionType = "producer"
	compressionNone     v1alpha1.CompressionType = "uncompressed"
	timestampCreate     v1alpha1.TimestampType   = "CreateTime"
	timestampLogAppend  v1alpha1.TimestampType   = "LogAppendTime"
)

// partitionsMax is the limit of the Topic schema for spec.partitions.
const partitionsMax = 10000

// TopicResource returns the Topic resource that a Kafka admin client requests, in the cluster named
// clusterName. Parameter cluster contains the default settings and may be nil. TopicResource checks
// everything that does not depend on other topics or on brokers. Its errors are those of
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
	return topic, setReplicas(topic, t.Replicas, cluster)
}

// Kafka's defaults for internal topics: offsets.topic.replication.factor and
// offsets.topic.num.partitions. A cluster with fewer brokers gets fewer replicas.
const (
	internalReplicas   = 3
	internalPartitions = 50
)

// WithInternalDefaults fills in the default number of partitions, number of replicas and
// min.insync.replicas of an internal topic. The defaults let a cluster of three or more brokers
// lose one broker. Parameter brokers is the number of brokers, up or down. Other topics are
// returned unchanged.
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

// propertySettings converts Kafka's properties to the settings of a Topic resource. It omits values
// that equal the cluster's defaults (ResourceSettings). An error about an unknown or invalid
// property wraps ErrInvalidSettings.
func propertySettings(properties map[string]string,
	cluster *v1alpha1.LogCluster) (v1alpha1.TopicSettings, error) {
	base, err := ResolveSettings(v1alpha1.TopicSettings{}, cluster)
	if err != nil {
		return v1alpha1.TopicSettings{}, err
	}
	settings := base
	if err := settings.SetAll(properties); err != nil {
		return v1alpha1.TopicSettings{}, fmt.Errorf("%w: %w", ErrInvalidSettings, err)
	}
	return ResourceSettings(settings, base), nil
}

// setReplicas sets the requested number of replicas; -1 leaves the number to the cluster's default.
// It checks the number, and min.insync.replicas against the number.
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

// ResourceSettings returns the fields of a Topic resource that change the settings base into s. It
// omits a value that equals its value in base: if base contains the cluster's defaults, the topic
// follows later changes of the default. It writes a value that differs from base even if the value
// is Kafka's default.
func ResourceSettings(s, base topicconfig.Settings) v1alpha1.TopicSettings {
	var to v1alpha1.TopicSettings
	to.MinInSyncReplicas = integer(s.MinInSyncReplicas, base.MinInSyncReplicas)
	if s.Delete != base.Delete || s.Compact != base.Compact {
		to.CleanupPolicy = cleanupPolicy(s)
	}
	to.Compaction = nilIfZero(v1alpha1.Compaction{
		MinDirtyPercent:    integer(s.MinDirtyPercent, base.MinDirtyPercent),
		MaxGarbagePercent:  integer(s.MaxGarbagePercent, base.MaxGarbagePercent),
		MinLag:             duration(s.MinLag, base.MinLag),
		MaxLag:             maxLag(s.MaxLag, base.MaxLag),
		TombstoneRetention: duration(s.TombstoneRetention, base.TombstoneRetention),
	})
	if s.KeepCodec != base.KeepCodec || s.Codec != base.Codec || s.CodecLevel != base.CodecLevel ||
		s.CleanCodec != base.CleanCodec {
		to.Compression = compression(s)
	}
	to.Retention = nilIfZero(v1alpha1.Retention{
		Time: duration(s.RetentionTime, base.RetentionTime),
		Size: size(s.RetentionBytes, base.RetentionBytes),
	})
	to.Segment = nilIfZero(v1alpha1.Segment{
		Size:          size(s.SegmentBytes, base.SegmentBytes),
		MaxAge:        duration(s.SegmentAge, base.SegmentAge),
		Jitter:        duration(s.SegmentJitter, base.SegmentJitter),
		IndexSize:     size(int64(s.SegmentIndexBytes), int64(base.SegmentIndexBytes)),
		IndexInterval: size(int64(s.IndexIntervalBytes), int64(base.IndexIntervalBytes)),
	})
	to.MaxMessageSize = size(int64(s.MessageBytesMax), int64(base.MessageBytesMax))
	if s.TimestampType != base.TimestampType {
		to.TimestampType = timestampCreate
		if s.TimestampType == record.LogAppendTime {
			to.TimestampType = timestampLogAppend
		}
	}
	to.TimestampLimits = nilIfZero(v1alpha1.TimestampLimits{
		Past:   duration(s.TimestampBeforeMax, base.TimestampBeforeMax),
		Future: duration(s.TimestampAfterMax, base.TimestampAfterMax),
	})
	if s.Fsync != base.Fsync {
		to.Durability = v1alpha1.DurabilityReplicated
		if s.Fsync {
			to.Durability = v1alpha1.DurabilityFsync
		}
	}
	if s.UncleanElection != base.UncleanElection {
		to.UncleanLeaderElection = &s.UncleanElection
	}
	to.WithoutEffect = withoutEffect(s.WithoutEffect, base.WithoutEffect)
	return to
}

// withoutEffect converts the settings that have no effect in Heartwood; only Kafka's tools read
// them.
func withoutEffect(s, base topicconfig.WithoutEffect) *v1alpha1.WithoutEffect {
	to := v1alpha1.WithoutEffect{
		FlushInterval:   duration(s.FlushInterval, base.FlushInterval),
		FileDeleteDelay: duration(s.FileDeleteDelay, base.FileDeleteDelay),
	}
	if s.Preallocate != base.Preallocate {
		to.Preallocate = &s.Preallocate
	}
	return nilIfZero(to)
}

// cleanupPolicy returns the schema's name of the cleanup policies. Settings without a policy become
// CleanupDelete, because the schema cannot express them.
func cleanupPolicy(s topicconfig.Settings) v1alpha1.CleanupPolicy {
	switch {
	case s.Compact && s.Delete:
		return v1alpha1.CleanupCompactDelete
	case s.Compact:
		return v1alpha1.CleanupCompact
	default:
		return v1alpha1.CleanupDelete
	}
}

// compression converts all codecs and levels together, because the resolver reads them together. It
// omits a level that is the codec's default.
func compression(s topicconfig.Settings) *v1alpha1.Compression {
	c := &v1alpha1.Compression{Type: v1alpha1.CompressionType(s.Codec.String())}
	switch {
	case s.KeepCodec:
		c.Type = compressionProducer
	case s.Codec == compress.None:
		c.Type = compressionNone
	case s.CodecLevel != compress.LevelDefault:
		level := int32(s.CodecLevel)
		c.Level = &level
	}
	if s.CleanCodec.Set {
		c.Clean = &v1alpha1.CleanCompression{
			Type: v1alpha1.CompressionType(s.CleanCodec.Codec.String()),
		}
		if s.CleanCodec.Codec == compress.None {
			c.Clean.Type = compressionNone
		}
		if s.CleanCodec.Level != compress.LevelDefault {
			level := int32(s.CleanCodec.Level)
			c.Clean.Level = &level
		}
	}
	return c
}

// integer returns value as a field of the resource, or nil if it equals base.
func integer(value, base int) *int32 {
	if value == base {
		return nil
	}
	n := int32(value)
	return &n
}

// duration returns value as a field of the resource, or nil if it equals base. Unlimited becomes
// -1s; other values are limited to durationMax.
func duration(value, base time.Duration) *metav1.Duration {
	switch {
	case value == base:
		return nil
	case value == topicconfig.Unlimited:
		return &metav1.Duration{Duration: -time.Second}
	default:
		return &metav1.Duration{Duration: min(value, durationMax)}
	}
}

// maxLag converts max.compaction.lag.ms. The schema rejects -1s in this field, so unlimited becomes
// durationMax.
func maxLag(value, base time.Duration) *metav1.Duration {
	if value == topicconfig.Unlimited && base != topicconfig.Unlimited {
		value = durationMax
	}
	return duration(value, base)
}

// size returns value in bytes as a field of the resource, or nil if it equals base.
func size(value, base int64) *resource.Quantity {
	if value == base {
		return nil
	}
	return resource.NewQuantity(value, resource.BinarySI)
}

// nilIfZero returns a pointer to group, or nil if all of its fields are empty.
func nilIfZero[T comparable](group T) *T {
	var zero T
	if group == zero {
		return nil
	}
	return &group
}
