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

// Words of the API that have no constant there.
const (
	compressionProducer v1alpha1.CompressionType = "producer"
	compressionNone     v1alpha1.CompressionType = "uncompressed"
	timestampCreate     v1alpha1.TimestampType   = "CreateTime"
	timestampLogAppend  v1alpha1.TimestampType   = "LogAppendTime"
)

// partitionsMax is the schema's limit for a topic.
const partitionsMax = 10000

// TopicResource returns the Topic resource that a Kafka admin client asks for, in the cluster of
// that name; cluster holds the defaults and may be nil. It checks everything that a topic's own
// resource can tell; the errors are those of Admin.
func TopicResource(t NewTopic, clusterName string, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic,
	error) {
	if err := CheckTopicName(t.Name); err != nil {
		return nil, err
	}
	topic := &v1alpha1.Topic{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Topic"},
		ObjectMeta: metav1.ObjectMeta{Name: ResourceName(t.Name)},
		Spec: v1alpha1.TopicSpec{Cluster: clusterName, Partitions: 1,
			ReclaimPolicy: v1alpha1.ReclaimDelete},
	}
	if topic.Name != t.Name {
		topic.Spec.TopicName = t.Name
	}
	if t.Partitions != -1 {
		topic.Spec.Partitions = t.Partitions
	}
	if topic.Spec.Partitions < 1 || topic.Spec.Partitions > partitionsMax {
		return nil, fmt.Errorf("%w: %d, 1 to %d are allowed", ErrInvalidPartitions, t.Partitions,
			partitionsMax)
	}
	settings, err := propertySettings(t.Properties, cluster)
	if err != nil {
		return nil, err
	}
	topic.Spec.TopicSettings = settings
	return topic, setReplicas(topic, t.Replicas, cluster)
}

// What a topic of the brokers' own has, where there are as many brokers and nothing else is asked
// for (Kafka's offsets.topic.replication.factor and offsets.topic.num.partitions).
const (
	internalReplicas   = 3
	internalPartitions = 50
)

// WithInternalDefaults gives a topic of the brokers' own that asks for the default number of
// partitions or replicas as many as it should have in a cluster of so many brokers, be they up or
// not, and has it outlive the loss of one. Other topics stay as they are.
func WithInternalDefaults(t NewTopic, brokers int32, cluster *v1alpha1.LogCluster) NewTopic {
	if !InternalTopic(t.Name) {
		return t
	}
	var groups Groups
	if t.Name == OffsetsTopic {
		groups = ResolveGroups(cluster)
	}
	if t.Partitions == -1 {
		t.Partitions = cmp.Or(groups.OffsetsPartitions, internalPartitions)
	}
	if t.Replicas != -1 {
		return t
	}
	if t.Replicas = groups.OffsetsReplicas; t.Replicas == 0 {
		t.Replicas = max(1, min(internalReplicas, brokers))
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

// propertySettings turns Kafka's properties into a resource's settings, over the cluster's
// defaults. A property that is unknown or out of range wraps ErrInvalidSettings.
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

// setReplicas writes the number of replicas that was asked for (-1 leaves it to the cluster), and
// checks it and what depends on it.
func setReplicas(topic *v1alpha1.Topic, replicas int32, cluster *v1alpha1.LogCluster) error {
	if replicas != -1 {
		if replicas < 1 {
			return fmt.Errorf("%w: %d, at least 1 is needed", ErrInvalidReplication, replicas)
		}
		topic.Spec.Replicas = &replicas
	}
	wanted := Replicas(topic.Spec.TopicSettings, cluster)
	if inSync := topic.Spec.MinInSyncReplicas; inSync != nil && int(*inSync) > wanted {
		return fmt.Errorf("%w: min.insync.replicas (%d) is above the number of replicas (%d)",
			ErrInvalidSettings, *inSync, wanted)
	}
	return CheckReplicas(topic.Spec.TopicSettings, cluster)
}

// ResourceSettings is the way back, for topics made through Kafka: settings as a Topic resource
// writes them. What equals base (the settings of a topic of this cluster that sets nothing) is left
// out, so that it follows the cluster's defaults when they change; what differs is written, also
// where it equals Kafka's default and base does not.
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

// withoutEffect writes what is kept for Kafka's tools alone.
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

// cleanupPolicy is the word for the two policies; neither of them is Delete, as the schema has no
// word for none.
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

// compression writes type and level together, as the resolver reads them. The codec's default level
// is left out.
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

// integer returns value for a field of the resource, nil where it equals base.
func integer(value, base int) *int32 {
	if value == base {
		return nil
	}
	n := int32(value)
	return &n
}

// duration writes a duration as the schema takes it: "-1s" for none, and at most durationMax.
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

// maxLag has no word for "no limit" in the schema; the longest duration means it.
func maxLag(value, base time.Duration) *metav1.Duration {
	if value == topicconfig.Unlimited && base != topicconfig.Unlimited {
		value = durationMax
	}
	return duration(value, base)
}

// size returns bytes for a field of the resource, nil where they equal base.
func size(value, base int64) *resource.Quantity {
	if value == base {
		return nil
	}
	return resource.NewQuantity(value, resource.BinarySI)
}

// nilIfZero leaves a group of fields out when none is set.
func nilIfZero[T comparable](group T) *T {
	var zero T
	if group == zero {
		return nil
	}
	return &group
}
