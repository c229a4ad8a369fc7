package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CleanupPolicy says what happens to old records.
// +kubebuilder:validation:Enum=Delete;Compact;CompactDelete
type CleanupPolicy string

const (
	// CleanupDelete drops whole segments by age and size.
	CleanupDelete CleanupPolicy = "Delete"
	// CleanupCompact keeps the latest record of each key, for ever.
	CleanupCompact CleanupPolicy = "Compact"
	// CleanupCompactDelete keeps the latest record of each key until its segment is past retention.
	CleanupCompactDelete CleanupPolicy = "CompactDelete"
)

// CompressionType names a codec as Kafka's compression.type does.
// +kubebuilder:validation:Enum=producer;uncompressed;gzip;snappy;lz4;zstd
type CompressionType string

// TimestampType says whose clock stamps the records.
// +kubebuilder:validation:Enum=CreateTime;LogAppendTime
type TimestampType string

// Durability says when a record is safe enough to be acknowledged.
// +kubebuilder:validation:Enum=Replicated;Fsync
type Durability string

const (
	// DurabilityReplicated acknowledges what the in-sync replicas hold in memory; disks are synced
	// in the background.
	DurabilityReplicated Durability = "Replicated"
	// DurabilityFsync acknowledges what they hold on their disks.
	DurabilityFsync Durability = "Fsync"
)

// ReclaimPolicy says what becomes of the data when the resource that stands for it is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type ReclaimPolicy string

const (
	// ReclaimRetain keeps the data: a resource of the same name made later takes it up again.
	ReclaimRetain ReclaimPolicy = "Retain"
	// ReclaimDelete removes the data with the resource.
	ReclaimDelete ReclaimPolicy = "Delete"
)

// TopicSettings are the settings a topic may leave to its cluster (LogCluster.spec.topicDefaults).
// What neither sets has the default given here, which is Kafka's unless the text says otherwise.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.minInSyncReplicas) || self.minInSyncReplicas <= self.replicas",fieldPath=".minInSyncReplicas",message="minInSyncReplicas must not be more than replicas: lower it, or raise replicas"
type TopicSettings struct {
	// Replicas is the number of brokers that hold each partition. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`

	// MinInSyncReplicas is how many replicas must hold a record before an acks=all write is
	// acknowledged. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	MinInSyncReplicas *int32 `json:"minInSyncReplicas,omitempty"`

	// UncleanLeaderElection lets a replica lead that lacks acknowledged records when none that has
	// them is up: the partition serves again at once, and those records are lost. Default false: it
	// waits for a replica that has them.
	// +optional
	UncleanLeaderElection *bool `json:"uncleanLeaderElection,omitempty"`

	// CleanupPolicy is Delete, Compact or CompactDelete. Default Delete.
	// +optional
	CleanupPolicy CleanupPolicy `json:"cleanupPolicy,omitempty"`

	// Compaction says when the cleaner works on the topic. Without effect under the policy Delete.
	// +optional
	Compaction *Compaction `json:"compaction,omitempty"`

	// Compression of what is stored, for fresh batches and for those the cleaner rebuilds. Default
	// type producer.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// Retention bounds the topic's age and size. Without effect under the policy Compact.
	// +optional
	Retention *Retention `json:"retention,omitempty"`

	// Segment says when a new segment file begins.
	// +optional
	Segment *Segment `json:"segment,omitempty"`

	// MaxMessageSize is the largest record batch taken, as it comes in (compressed). Default
	// 1048588 bytes.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 1 to 2147483647 bytes, such as 1Mi"
	MaxMessageSize *resource.Quantity `json:"maxMessageSize,omitempty"`

	// TimestampType is CreateTime (the producer's clock) or LogAppendTime (the broker's). Default
	// CreateTime.
	// +optional
	TimestampType TimestampType `json:"timestampType,omitempty"`

	// TimestampLimits say how far a producer's timestamp may lie from the broker's clock. Without
	// effect with LogAppendTime.
	// +optional
	TimestampLimits *TimestampLimits `json:"timestampLimits,omitempty"`

	// Durability is Replicated (a record counts on a replica once the operating system has it;
	// disks are synced in the background, within about a second) or Fsync (it counts once it is on
	// the disk: a power cut takes nothing that was acknowledged, nor anything that a consumer has
	// seen). Default Replicated. Kafka's tools show and take it as flush.messages.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// WithoutEffect are settings of Kafka's that have nothing to act on here. They are kept so that
	// Kafka's tools find what they set.
	// +optional
	WithoutEffect *WithoutEffect `json:"withoutEffect,omitempty"`
}

// TimestampLimits say how far a producer's timestamp may lie from the broker's clock; records
// beyond are refused.
type TimestampLimits struct {
	// Past is Kafka's message.timestamp.before.max.ms. Default: no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h, or -1s for no limit"
	Past *metav1.Duration `json:"past,omitempty"`

	// Future is Kafka's message.timestamp.after.max.ms. Default 1h; "-1s" takes any.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h, or -1s for no limit"
	Future *metav1.Duration `json:"future,omitempty"`
}

// WithoutEffect are settings of Kafka's that have nothing to act on here.
type WithoutEffect struct {
	// FlushInterval is flush.ms, at least 1s: disks are synced within about a second whatever it
	// says. For more, set durability to Fsync. Default: no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s'))",message="write a duration of at least 1s, such as 10s, or -1s for no limit: disks are synced within about a second anyhow; for more, set durability to Fsync"
	FlushInterval *metav1.Duration `json:"flushInterval,omitempty"`

	// FileDeleteDelay is file.delete.delay.ms: a deleted file goes with its last reader. Default
	// 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 1m"
	FileDeleteDelay *metav1.Duration `json:"fileDeleteDelay,omitempty"`

	// Preallocate is preallocate: files grow as they are written. Default false.
	// +optional
	Preallocate *bool `json:"preallocate,omitempty"`
}

// Compaction says when the cleaner works on a topic.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minLag) || !has(self.maxLag) || !self.minLag.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.minLag.size() == 0 || !self.maxLag.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.maxLag.size() == 0 || duration(self.minLag) <= duration(self.maxLag)",fieldPath=".minLag",message="minLag must not be longer than maxLag: lower minLag, or raise maxLag"
type Compaction struct {
	// MinDirtyPercent is the share of the log that must be dirty before a clean, as Kafka's
	// min.cleanable.dirty.ratio. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MinDirtyPercent *int32 `json:"minDirtyPercent,omitempty"`

	// MaxGarbagePercent is how much of the cleaned section may be superseded records still when a
	// clean has ended: a clean rewrites the segments that free the most for what they cost, and
	// leaves the others once no more garbage is left than this. With 0 every key stands once in the
	// cleaned section, at about three times the I/O. Default 20.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	MaxGarbagePercent *int32 `json:"maxGarbagePercent,omitempty"`

	// MinLag is how long a record stays uncleaned at least. Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 10m or 24h"
	MinLag *metav1.Duration `json:"minLag,omitempty"`

	// MaxLag is how long a record may stay uncleaned, whatever the dirty percentage. Default: no
	// limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms')",message="write a duration in h, m, s and ms, in this order, at least 1ms, such as 24h or 168h"
	MaxLag *metav1.Duration `json:"maxLag,omitempty"`

	// TombstoneRetention is how long a tombstone stays after the values it deletes are gone.
	// Default 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h"
	TombstoneRetention *metav1.Duration `json:"tombstoneRetention,omitempty"`
}

// Compression is a codec and its level (KIP-390).
//
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !(self.type in ['producer', 'uncompressed', 'snappy'])",fieldPath=".level",message="only gzip, lz4 and zstd have levels: remove level, or choose one of these types"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'gzip' || (self.level >= 1 && self.level <= 9)",fieldPath=".level",message="the level of gzip must be 1 to 9"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'lz4' || (self.level >= 1 && self.level <= 17)",fieldPath=".level",message="the level of lz4 must be 1 to 17"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'zstd' || (self.level >= -131072 && self.level <= 22)",fieldPath=".level",message="the level of zstd must be -131072 to 22"
type Compression struct {
	// Type is the codec; producer keeps each batch as its producer compressed it.
	Type CompressionType `json:"type"`

	// Level is the codec's own: gzip 1..9, lz4 1..17, zstd -131072..22. Default: the codec's.
	// +optional
	Level *int32 `json:"level,omitempty"`

	// Clean is a denser codec for the section of a compacted topic that the cleaner has rewritten:
	// that is written once and read for long. Whatever the cleaner writes is compressed so; what it
	// has no reason to rewrite stays as it is. Default: as fresh batches.
	// +optional
	Clean *CleanCompression `json:"clean,omitempty"`
}

// CleanCompression is the codec of what the cleaner writes.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'producer'",fieldPath=".type",message="the cleaner's codec must be uncompressed, gzip, snappy, lz4 or zstd: remove clean to keep each batch's own codec"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !(self.type in ['producer', 'uncompressed', 'snappy'])",fieldPath=".level",message="only gzip, lz4 and zstd have levels: remove level, or choose one of these types"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'gzip' || (self.level >= 1 && self.level <= 9)",fieldPath=".level",message="the level of gzip must be 1 to 9"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'lz4' || (self.level >= 1 && self.level <= 17)",fieldPath=".level",message="the level of lz4 must be 1 to 17"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'zstd' || (self.level >= -131072 && self.level <= 22)",fieldPath=".level",message="the level of zstd must be -131072 to 22"
type CleanCompression struct {
	// Type is the codec.
	Type CompressionType `json:"type"`

	// Level is the codec's own: gzip 1..9, lz4 1..17, zstd -131072..22. Default: the codec's.
	// +optional
	Level *int32 `json:"level,omitempty"`
}

// Retention bounds a topic's age and size.
type Retention struct {
	// Time is how long a record is kept at least. Default 168h; "-1s" keeps records for ever.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 168h, or -1s to keep records for ever"
	Time *metav1.Duration `json:"time,omitempty"`

	// Size is how large a partition may grow before its oldest segments go. Default: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && (string(self) == '-1' || quantity(string(self)).compareTo(quantity('0')) >= 0) && quantity(string(self)).compareTo(quantity('9223372036854775807')) <= 0",message="write a size in bytes, 0 to 9223372036854775807, such as 10Gi, or -1 for no limit"
	Size *resource.Quantity `json:"size,omitempty"`
}

// Segment says when a new segment file begins.
type Segment struct {
	// Size is a segment's largest size. Default 1Gi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a segment size of 1Ki to 2147483647 bytes, such as 512Mi or 1Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// MaxAge is how long a segment takes records at most, also when nothing is written. Default
	// 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms')",message="write a duration in h, m, s and ms, in this order, at least 1ms, such as 168h"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// Jitter is how much earlier than maxAge a segment may end, each by another share of it, so
	// that not all segments end at once. Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 10m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`

	// IndexSize is the largest index file of a segment; a full one begins a new segment. Default
	// 10Mi. It holds for segments begun later.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 1Ki to 2147483647 bytes, such as 10Mi"
	IndexSize *resource.Quantity `json:"indexSize,omitempty"`

	// IndexInterval is how many bytes of records lie between two entries of an index. Default 4Ki.
	// It holds for segments begun later.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 0 to 2147483647 bytes, such as 4Ki"
	IndexInterval *resource.Quantity `json:"indexInterval,omitempty"`
}
