package metadata

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// cleanerMemoryDefault is the memory budget of a broker's cleaner if the LogCluster does not set
// it.
const cleanerMemoryDefault = 128 << 20

// ResolveTopic converts a Topic resource to a Topic, using its cluster's defaults. cluster may be
// nil. ResolveTopic sets neither the id nor the partitions.
func ResolveTopic(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (*Topic, error) {
	settings, err := SettingsOf(topic, cluster)
	if err != nil {
		return nil, err
	}
	return &Topic{
		Name:       topic.KafkaName(),
		Settings:   settings,
		Own:        ownProperties(internalSettings(topic)),
		Internal:   InternalTopic(topic.KafkaName()),
		RetainData: topic.Spec.ReclaimPolicy != v1alpha1.ReclaimDelete,
		CleanNow:   topic.CleanNow(),
	}, nil
}

// ResolveCleaner returns the budget that a LogCluster sets for cleaners. cluster may be nil.
func ResolveCleaner(cluster *v1alpha1.LogCluster) CleanerBudget {
	budget := CleanerBudget{Workers: 1, MemoryBytes: cleanerMemoryDefault}
	if cluster == nil || cluster.Spec.Cleaner == nil {
		return budget
	}
	cleaner := cluster.Spec.Cleaner
	if cleaner.Workers != nil {
		budget.Workers = int(*cleaner.Workers)
	}
	if cleaner.Memory != nil {
		budget.MemoryBytes = cleaner.Memory.Value()
	}
	if cleaner.IORate != nil {
		budget.IOBytesRate = cleaner.IORate.Value()
	}
	return budget
}

// ResolveReplication returns a LogCluster's replication settings. cluster may be nil. Values out of
// range, which the API server rejects, count as not set.
func ResolveReplication(cluster *v1alpha1.LogCluster) (resolved Replication) {
	if cluster == nil {
		return Replication{}
	}
	if spec := cluster.Spec.Rebalance; spec != nil && spec.Rate != nil {
		resolved.MoveBytesRate = max(0, spec.Rate.Value())
	}
	if cluster.Spec.Replication == nil {
		return resolved
	}
	if lag := cluster.Spec.Replication.MaxLag; lag != nil && lag.Duration >= time.Second {
		resolved.LagMax = lag.Duration
	}
	if rate := cluster.Spec.Replication.CatchUpRate; rate != nil {
		resolved.CatchUpBytesRate = max(0, rate.Value())
	}
	return resolved
}

// ResolveGroups returns a LogCluster's settings for groups. cluster may be nil. Values out of
// range, which the API server rejects, count as not set.
func ResolveGroups(cluster *v1alpha1.LogCluster) (resolved Groups) {
	if cluster == nil || cluster.Spec.Groups == nil {
		return Groups{}
	}
	groups := cluster.Spec.Groups
	resolved = Groups{
		SessionMin:           positive(groups.MinSessionTimeout),
		SessionMax:           positive(groups.MaxSessionTimeout),
		OffsetsRetention:     positive(groups.OffsetsRetention),
		OffsetsCheckInterval: positive(groups.OffsetsCheckInterval),
		ConsumerSession:      positive(groups.ConsumerSessionTimeout),
		ConsumerInterval:     positive(groups.ConsumerHeartbeatInterval),
		ConsumerSessionMin:   positive(groups.MinConsumerSessionTimeout),
		ConsumerSessionMax:   positive(groups.MaxConsumerSessionTimeout),
		ConsumerIntervalMin:  positive(groups.MinConsumerHeartbeatInterval),
		ConsumerIntervalMax:  positive(groups.MaxConsumerHeartbeatInterval),
		MembersMax:           int(atLeastOne(groups.MaxMembers)),
	}
	if delay := groups.InitialRebalanceDelay; delay != nil {
		resolved.InitialDelay = noneIfZero(delay.Duration)
	}
	if interval := groups.ConsumerAssignmentInterval; interval != nil {
		resolved.ConsumerAssignment = noneIfZero(interval.Duration)
	}
	if size := groups.MaxOffsetMetadata; size != nil {
		resolved.MetadataBytesMax = noneIfZero(int(size.Value()))
	}
	if topic := groups.OffsetsTopic; topic != nil {
		resolved.OffsetsPartitions, resolved.OffsetsReplicas = atLeastOne(topic.Partitions),
			atLeastOne(topic.Replicas)
	}
	return resolved
}

// ResolveTransactions returns a LogCluster's settings for transactions. cluster may be nil. Values
// out of range, which the API server rejects, count as not set.
func ResolveTransactions(cluster *v1alpha1.LogCluster) (resolved Transactions) {
	if cluster == nil || cluster.Spec.Transactions == nil {
		return Transactions{}
	}
	transactions := cluster.Spec.Transactions
	resolved = Transactions{TimeoutMax: positive(transactions.MaxTimeout),
		IDExpiration: positive(transactions.IDExpiration)}
	if topic := transactions.StateTopic; topic != nil {
		resolved.Partitions, resolved.Replicas = atLeastOne(topic.Partitions),
			atLeastOne(topic.Replicas)
	}
	return resolved
}

// positive returns the duration if it is positive, and otherwise 0, also for nil.
func positive(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return max(0, d.Duration)
}

// atLeastOne returns the number if it is positive, and otherwise 0, also for nil.
func atLeastOne(n *int32) int32 {
	if n == nil {
		return 0
	}
	return max(0, *n)
}

// noneIfZero converts a number in the resource to a field of Groups. 0 becomes -1, because 0 means
// "none" in the resource, but "not set" in Groups.
func noneIfZero[T ~int | ~int64](n T) T {
	if n == 0 {
		return -1
	}
	return max(0, n)
}

// NewTopicPartitions returns the number of partitions of a new topic if neither its resource nor
// its request specifies the number. As in Kafka, the cluster's default does not apply to internal
// topics.
func NewTopicPartitions(kafkaName string, cluster *v1alpha1.LogCluster) int32 {
	switch {
	case kafkaName == OffsetsTopic:
		return cmp.Or(ResolveGroups(cluster).OffsetsPartitions, internalPartitions)
	case kafkaName == TransactionsTopic:
		return cmp.Or(ResolveTransactions(cluster).Partitions, internalPartitions)
	case InternalTopic(kafkaName):
		return internalPartitions
	}
	return DefaultPartitions(cluster)
}

// DefaultPartitions returns the cluster's default number of partitions (num.partitions). cluster
// may be nil.
func DefaultPartitions(cluster *v1alpha1.LogCluster) int32 {
	if cluster == nil || cluster.Spec.TopicDefaults == nil {
		return 1
	}
	return max(1, atLeastOne(cluster.Spec.TopicDefaults.Partitions))
}

// Replicas returns a topic's number of replicas: its own number, otherwise the cluster's default,
// otherwise 1.
func Replicas(topic v1alpha1.TopicSettings, cluster *v1alpha1.LogCluster) int {
	if topic.Replicas == nil && cluster != nil && cluster.Spec.TopicDefaults != nil {
		topic.Replicas = cluster.Spec.TopicDefaults.Replicas
	}
	if topic.Replicas == nil {
		return 1
	}
	return int(*topic.Replicas)
}

// CheckReplicas rejects a topic whose own minInSyncReplicas is above its number of replicas. Such a
// topic could never accept a write with acks=all. The CRD's rule validates only a single resource;
// CheckReplicas also considers the cluster's default number of replicas. A default for
// minInSyncReplicas is never too large, because ResolveSettings lowers it. The error wraps
// ErrInvalidSettings.
func CheckReplicas(topic v1alpha1.TopicSettings, cluster *v1alpha1.LogCluster) error {
	replicas, inSync := Replicas(topic, cluster), topic.MinInSyncReplicas
	if inSync == nil || int(*inSync) <= replicas {
		return nil
	}
	fault := field.Invalid(field.NewPath("spec", "minInSyncReplicas"), *inSync, fmt.Sprintf(
		"the topic has %d replicas and cannot require more in sync: lower it, or raise replicas",
		replicas))
	return &kindError{fault, ErrInvalidSettings}
}

// SettingsOf returns a topic's settings, as ResolveSettings does, except that the cleanup policy of
// an internal topic is always Compact, whatever its resource contains.
func SettingsOf(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (topicconfig.Settings, error) {
	return ResolveSettings(internalSettings(topic), cluster)
}

// ResolveSettings returns a topic's settings. For each setting it uses the topic's value, otherwise
// the cluster's default, otherwise Kafka's default. As in Kafka, it lowers a default for
// minInSyncReplicas to the number of replicas. Otherwise every client that creates a topic with few
// replicas would have to set both. cluster may be nil. The error wraps ErrInvalidSettings and
// begins with the path of the field.
func ResolveSettings(topic v1alpha1.TopicSettings,
	cluster *v1alpha1.LogCluster) (topicconfig.Settings, error) {
	settings, err := resolve(topic, cluster)
	if err == nil && topic.MinInSyncReplicas == nil {
		settings.MinInSyncReplicas = min(settings.MinInSyncReplicas, Replicas(topic, cluster))
	}
	return settings, err
}

// resolve is like ResolveSettings, but does not lower the default for minInSyncReplicas.
func resolve(topic v1alpha1.TopicSettings,
	cluster *v1alpha1.LogCluster) (topicconfig.Settings, error) {
	r := resolver{settings: topicconfig.Default()}
	if cluster != nil && cluster.Spec.TopicDefaults != nil {
		r.apply(cluster.Spec.TopicDefaults.TopicSettings, field.NewPath("spec", "topicDefaults"))
	}
	r.apply(topic, field.NewPath("spec"))
	if len(r.faults) == 0 {
		if err := r.settings.Validate(); err != nil {
			// The CRD's rule compares minLag with maxLag within one resource. Here one of them may be the
			// cluster's default.
			path := field.NewPath("spec", "compaction", "minLag")
			r.faults = append(r.faults,
				field.Invalid(path, r.settings.MinLag.String(),
					"with the cluster's topicDefaults: "+err.Error()))
		}
	}
	if len(r.faults) > 0 {
		return topicconfig.Settings{}, &kindError{r.faults.ToAggregate(), ErrInvalidSettings}
	}
	return r.settings, nil
}

// kindError is an error about a field of a resource. It wraps kind, such as ErrInvalidSettings, but
// its text is only that of fault. Like an API server's error, it begins with the field's path.
type kindError struct {
	fault error
	kind  error
}

func (e *kindError) Error() string { return e.fault.Error() }
func (e *kindError) Unwrap() error { return e.kind }

// resolver merges settings. It checks the same ranges as the CRD's rules, because a resource may
// have been written under another version of the CRD.
type resolver struct {
	settings topicconfig.Settings
	faults   field.ErrorList
}

// apply merges a resource's settings. It skips fields that are not set (nil or empty). It adds an
// invalid value to r.faults and skips it, so that all errors in a resource are reported at once.
func (r *resolver) apply(from v1alpha1.TopicSettings, path *field.Path) {
	s := &r.settings
	r.integer(&s.MinInSyncReplicas, from.MinInSyncReplicas, 1, math.MaxInt16,
		path.Child("minInSyncReplicas"))
	r.cleanupPolicy(from.CleanupPolicy, path.Child("cleanupPolicy"))
	if c, child := from.Compaction, path.Child("compaction"); c != nil {
		r.percent(&s.MinDirtyPercent, c.MinDirtyPercent, child.Child("minDirtyPercent"))
		r.integer(&s.MaxGarbagePercent, c.MaxGarbagePercent, 0, 99, child.Child("maxGarbagePercent"))
		r.duration(&s.MinLag, c.MinLag, 0, child.Child("minLag"))
		r.age(&s.MaxLag, c.MaxLag, child.Child("maxLag"))
		r.duration(&s.TombstoneRetention, c.TombstoneRetention, 0, child.Child("tombstoneRetention"))
	}
	if c := from.Compression; c != nil {
		r.compression(*c, path.Child("compression"))
	}
	if c, child := from.Retention, path.Child("retention"); c != nil {
		r.age(&s.RetentionTime, c.Time, child.Child("time"))
		r.size(&s.RetentionBytes, c.Size, topicconfig.Unlimited, math.MaxInt64, child.Child("size"))
	}
	if c, child := from.Segment, path.Child("segment"); c != nil {
		r.size(&s.SegmentBytes, c.Size, topicconfig.SegmentBytesMin, topicconfig.SegmentBytesMax,
			child.Child("size"))
		r.duration(&s.SegmentAge, c.MaxAge, time.Millisecond, child.Child("maxAge"))
		r.duration(&s.SegmentJitter, c.Jitter, 0, child.Child("jitter"))
		r.bytes(&s.SegmentIndexBytes, c.IndexSize, topicconfig.SegmentIndexBytesMin,
			child.Child("indexSize"))
		r.bytes(&s.IndexIntervalBytes, c.IndexInterval, 0, child.Child("indexInterval"))
	}
	r.bytes(&s.MessageBytesMax, from.MaxMessageSize, 0, path.Child("maxMessageSize"))
	r.bytes(&s.RecordBytesMax, from.MaxRecordSize, 1, path.Child("maxRecordSize"))
	r.timestampType(from.TimestampType, path.Child("timestampType"))
	if c, child := from.TimestampLimits, path.Child("timestampLimits"); c != nil {
		r.age(&s.TimestampBeforeMax, c.Past, child.Child("past"))
		r.age(&s.TimestampAfterMax, c.Future, child.Child("future"))
	}
	r.durability(from.Durability, path.Child("durability"))
	if from.UncleanLeaderElection != nil {
		s.UncleanElection = *from.UncleanLeaderElection
	}
	if c, child := from.WithoutEffect, path.Child("withoutEffect"); c != nil {
		r.interval(&s.WithoutEffect.FlushInterval, c.FlushInterval, child.Child("flushInterval"))
		r.duration(&s.WithoutEffect.FileDeleteDelay, c.FileDeleteDelay, 0,
			child.Child("fileDeleteDelay"))
		if c.Preallocate != nil {
			s.WithoutEffect.Preallocate = *c.Preallocate
		}
	}
}

// integer copies *from, which must be in [lowest, highest], to *to. If from is nil, *to keeps its
// value.
func (r *resolver) integer(to *int, from *int32, lowest, highest int, path *field.Path) {
	if from == nil {
		return
	}
	if int(*from) < lowest || int(*from) > highest {
		r.faults = append(r.faults,
			field.Invalid(path, *from, fmt.Sprintf("must be %d to %d", lowest, highest)))
		return
	}
	*to = int(*from)
}

// percent is like integer, for a percentage from 0 to 100 that may have decimals.
func (r *resolver) percent(to *float64, from *v1alpha1.Percent, path *field.Path) {
	if from == nil {
		return
	}
	percent, err := from.Float()
	if err != nil || !(percent >= 0 && percent <= 100) { // negated, so that NaN is rejected too
		r.faults = append(r.faults, field.Invalid(path, percent, "must be 0 to 100"))
		return
	}
	*to = percent
}

// duration copies *from, which must not be below lowest, to *to. If from is nil, *to keeps its
// value.
func (r *resolver) duration(to *time.Duration, from *metav1.Duration, lowest time.Duration,
	path *field.Path) {
	if from == nil {
		return
	}
	if from.Duration < lowest {
		r.faults = append(r.faults,
			field.Invalid(path, from.Duration.String(), fmt.Sprintf("must be at least %s", lowest)))
		return
	}
	*to = from.Duration
}

// age sets a duration that may be unlimited. Negative values, and values of at least
// topicconfig.DurationMax, mean unlimited. Other values must be at least 0.
func (r *resolver) age(to *time.Duration, from *metav1.Duration, path *field.Path) {
	if from != nil && (from.Duration < 0 || from.Duration >= topicconfig.DurationMax) {
		*to = topicconfig.Unlimited
		return
	}
	r.duration(to, from, 0, path)
}

// size is like integer, for a quantity in bytes. It compares *from as a Quantity, because
// Quantity.Value truncates a number of more than 63 bits.
func (r *resolver) size(to *int64, from *resource.Quantity, lowest, highest int64,
	path *field.Path) {
	if from == nil {
		return
	}
	if from.CmpInt64(lowest) < 0 || from.CmpInt64(highest) > 0 {
		r.faults = append(r.faults,
			field.Invalid(path, from.String(),
				fmt.Sprintf("must be %d to %d bytes", lowest, highest)))
		return
	}
	*to = from.Value()
}

// bytes is like size, for a setting of type int with at most 31 bits.
func (r *resolver) bytes(to *int, from *resource.Quantity, lowest int64, path *field.Path) {
	wide := int64(*to)
	r.size(&wide, from, lowest, math.MaxInt32, path)
	*to = int(wide)
}

// interval is like age, but for flush.ms, which must be at least the interval of the background
// sync.
func (r *resolver) interval(to *time.Duration, from *metav1.Duration, path *field.Path) {
	if from != nil && (from.Duration < 0 || from.Duration >= topicconfig.DurationMax) {
		*to = topicconfig.Unlimited
		return
	}
	r.duration(to, from, topicconfig.FlushIntervalShortest, path)
}

// cleanupPolicy sets both flags, because a topic's policy replaces the cluster's default and is not
// added to it.
func (r *resolver) cleanupPolicy(policy v1alpha1.CleanupPolicy, path *field.Path) {
	s := &r.settings
	switch policy {
	case "":
		return
	case v1alpha1.CleanupDelete, v1alpha1.CleanupCompact, v1alpha1.CleanupCompactDelete,
		v1alpha1.CleanupDeleteCompact:
		s.Delete, s.Compact = policy != v1alpha1.CleanupCompact, policy != v1alpha1.CleanupDelete
		s.DeleteFirst = policy == v1alpha1.CleanupDeleteCompact
	default:
		allowed := []v1alpha1.CleanupPolicy{v1alpha1.CleanupDelete, v1alpha1.CleanupCompact,
			v1alpha1.CleanupCompactDelete, v1alpha1.CleanupDeleteCompact}
		r.faults = append(r.faults, field.NotSupported(path, policy, allowed))
	}
}

// compression sets the codec, the level and the cleaner's codec together. A topic that sets another
// codec must not inherit the cluster's default level, which is for the cluster's codec.
func (r *resolver) compression(c v1alpha1.Compression, path *field.Path) {
	s := &r.settings
	if c.Type != "" { // if it is empty, the cluster's codec and level apply
		if codec, level, ok := r.codec(c.Type, c.Level, path); ok {
			s.KeepCodec, s.Codec, s.CodecLevel = c.Type == compressionProducer, codec, level
		}
	} else if c.Level != nil {
		r.faults = append(r.faults,
			field.Invalid(path.Child("level"), *c.Level, "must be absent without a type"))
	}
	s.CleanCodec = topicconfig.CleanCodec{}
	if c.Clean == nil {
		return
	}
	child := path.Child("clean")
	if c.Clean.Type == compressionProducer {
		r.faults = append(r.faults,
			field.Invalid(child.Child("type"), c.Clean.Type, "must be a codec"))
		return
	}
	if codec, level, ok := r.codec(c.Clean.Type, c.Clean.Level, child); ok {
		s.CleanCodec = topicconfig.CleanCodec{Set: true, Codec: codec, Level: level}
	}
}

// codec returns a codec and its level. If one of them is invalid, codec adds a fault and ok is
// false.
func (r *resolver) codec(name v1alpha1.CompressionType, requested *int32,
	path *field.Path) (codec compress.Codec, level int, ok bool) {
	if name != compressionProducer && name != compressionNone {
		var err error
		if codec, err = compress.ParseCodec(string(name)); err != nil {
			r.faults = append(r.faults, field.Invalid(path.Child("type"), name, err.Error()))
			return codec, 0, false
		}
	}
	level = compress.LevelDefault
	// A resource with the codec's default level and a resource without a level must resolve to
	// equal settings.
	if _, _, _, has := codec.Levels(); requested != nil &&
		(!has || int(*requested) != topicconfig.DefaultLevel(codec)) {
		level = int(*requested)
	}
	if err := codec.CheckLevel(level); err != nil {
		r.faults = append(r.faults, field.Invalid(path.Child("level"), level, err.Error()))
		return codec, 0, false
	}
	return codec, level, true
}

// timestampType converts the values of Kafka's message.timestamp.type.
func (r *resolver) timestampType(stamp v1alpha1.TimestampType, path *field.Path) {
	switch stamp {
	case "":
	case timestampCreate:
		r.settings.TimestampType = record.CreateTime
	case timestampLogAppend:
		r.settings.TimestampType = record.LogAppendTime
	default:
		r.faults = append(r.faults,
			field.NotSupported(path, stamp,
				[]v1alpha1.TimestampType{timestampCreate, timestampLogAppend}))
	}
}

func (r *resolver) durability(durability v1alpha1.Durability, path *field.Path) {
	switch durability {
	case "":
	case v1alpha1.DurabilityReplicated, v1alpha1.DurabilityFsync:
		r.settings.Fsync = durability == v1alpha1.DurabilityFsync
	default:
		known := []v1alpha1.Durability{v1alpha1.DurabilityReplicated, v1alpha1.DurabilityFsync}
		r.faults = append(r.faults, field.NotSupported(path, durability, known))
	}
}
