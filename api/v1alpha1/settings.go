package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CleanupPolicy determines what happens to old records.
// +kubebuilder:validation:Enum=Delete;Compact;CompactDelete;DeleteCompact
type CleanupPolicy string

const (
	// CleanupDelete deletes segments by age and size.
	CleanupDelete CleanupPolicy = "Delete"
	// CleanupCompact keeps the latest record of each key.
	CleanupCompact CleanupPolicy = "Compact"
	// CleanupCompactDelete keeps the latest record of each key until its segment exceeds the
	// retention.
	CleanupCompactDelete CleanupPolicy = "CompactDelete"
	// CleanupDeleteCompact is CleanupCompactDelete with Kafka's list in the other order. The order has
	// no effect. It is stored because Kafka's tools read the list as they have set it.
	CleanupDeleteCompact CleanupPolicy = "DeleteCompact"
)

// CompressionType is a codec, named as in Kafka's compression.type.
// +kubebuilder:validation:Enum=producer;uncompressed;gzip;snappy;lz4;zstd
type CompressionType string

// TimestampType selects the clock that sets record timestamps: the producer's or the broker's.
// +kubebuilder:validation:Enum=CreateTime;LogAppendTime
type TimestampType string

// Durability determines when a replica counts a record as stored.
// +kubebuilder:validation:Enum=Replicated;Fsync
type Durability string

const (
	// DurabilityReplicated counts a record as stored once it has been written to the operating system.
	// Disks are synced in the background.
	DurabilityReplicated Durability = "Replicated"
	// DurabilityFsync counts a record as stored once it has been synced to disk.
	DurabilityFsync Durability = "Fsync"
)

// ReclaimPolicy determines what happens to data when its resource is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type ReclaimPolicy string

const (
	// ReclaimRetain keeps the data. A later resource of the same name continues with this data.
	ReclaimRetain ReclaimPolicy = "Retain"
	// ReclaimDelete deletes the data with the resource.
	ReclaimDelete ReclaimPolicy = "Delete"
)

// TopicSettings are the Topic settings for which a LogCluster can specify defaults
// (spec.topicDefaults). If neither the Topic nor the LogCluster specifies a setting, the default in
// its description applies. This is Kafka's default unless stated otherwise.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.minInSyncReplicas) || self.minInSyncReplicas <= self.replicas",fieldPath=".minInSyncReplicas",message="minInSyncReplicas must not be more than replicas: lower it, or raise replicas"
type TopicSettings struct {
	// Replicas is the number of replicas of each partition. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`

	// MinInSyncReplicas is the number of in-sync replicas that a write with acks=all requires in order
	// to be accepted and acknowledged (min.insync.replicas). Default 1. If a default in
	// spec.topicDefaults exceeds the topic's number of replicas, the number of replicas applies
	// instead.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	MinInSyncReplicas *int32 `json:"minInSyncReplicas,omitempty"`

	// UncleanLeaderElection allows the election of a replica that may lack acknowledged records if no
	// replica that has them is up (unclean.leader.election.enable). The partition is then available at
	// once, but the records that this replica lacks are lost. Default false: the partition waits for a
	// replica that has all acknowledged records.
	// +optional
	UncleanLeaderElection *bool `json:"uncleanLeaderElection,omitempty"`

	// CleanupPolicy is Delete, Compact or CompactDelete (cleanup.policy). Default Delete. It is always
	// Compact for __consumer_offsets and __transaction_state. DeleteCompact equals CompactDelete;
	// Kafka's tools set it with delete,compact.
	// +optional
	CleanupPolicy CleanupPolicy `json:"cleanupPolicy,omitempty"`

	// Compaction configures the cleaner. It has no effect with cleanupPolicy Delete.
	// +optional
	Compaction *Compaction `json:"compaction,omitempty"`

	// Compression is the compression of stored batches: new batches, and batches that the cleaner
	// writes. Default: type producer.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// Retention limits the age and size of the topic. It has no effect with cleanupPolicy Compact.
	// +optional
	Retention *Retention `json:"retention,omitempty"`

	// Segment configures when a segment is rolled.
	// +optional
	Segment *Segment `json:"segment,omitempty"`

	// MaxMessageSize is the maximum size of a record batch when the broker receives it
	// (max.message.bytes), 1 to 2147483647 bytes. Default 1048588 bytes.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 1 to 2147483647 bytes, such as 1Mi"
	MaxMessageSize *resource.Quantity `json:"maxMessageSize,omitempty"`

	// MaxRecordSize is the maximum decompressed size of a record in a compressed batch
	// (max.decompressed.message.bytes), 1 to 2147483639 bytes. A produced batch with a larger record
	// is rejected before it is decompressed further. Default: no limit for a record; a batch can
	// decompress to at most 64Mi, or to maxMessageSize if that is more.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('2147483639')) <= 0",message="write a size of 1 to 2147483639 bytes, such as 10Mi"
	MaxRecordSize *resource.Quantity `json:"maxRecordSize,omitempty"`

	// TimestampType is CreateTime (the producer's clock) or LogAppendTime (the broker's clock).
	// Default CreateTime.
	// +optional
	TimestampType TimestampType `json:"timestampType,omitempty"`

	// TimestampLimits limit the difference between a producer's timestamp and the broker's clock. They
	// have no effect with LogAppendTime.
	// +optional
	TimestampLimits *TimestampLimits `json:"timestampLimits,omitempty"`

	// Durability is Replicated or Fsync. With Replicated, a replica counts a record as stored when it
	// has been written to the operating system; disks are synced in the background within about a
	// second. With Fsync, a replica counts a record as stored when it has been synced to disk. A power
	// failure then loses no record that was acknowledged or visible to a consumer. Kafka's tools show
	// and set this setting as flush.messages. Default Replicated.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// WithoutEffect contains Kafka settings that have no effect in Heartwood. They are stored because
	// Kafka's tools read the values that they have set.
	// +optional
	WithoutEffect *WithoutEffect `json:"withoutEffect,omitempty"`
}

// TimestampLimits limit the difference between a producer's timestamp and the broker's clock.
// Records beyond a limit are rejected.
type TimestampLimits struct {
	// Past is the maximum time by which a timestamp can be in the past
	// (message.timestamp.before.max.ms); "-1s" for no limit. Default: no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h, or -1s for no limit"
	Past *metav1.Duration `json:"past,omitempty"`

	// Future is the maximum time by which a timestamp can be in the future
	// (message.timestamp.after.max.ms); "-1s" for no limit. Default 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h, or -1s for no limit"
	Future *metav1.Duration `json:"future,omitempty"`
}

// WithoutEffect contains Kafka settings that have no effect in Heartwood.
type WithoutEffect struct {
	// FlushInterval is Kafka's flush.ms, at least 1s; "-1s" for no limit. Whatever its value is, disks
	// are synced within about a second. For stronger guarantees, set durability to Fsync. Default: no
	// limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s'))",message="write a duration of at least 1s, such as 10s, or -1s for no limit: disks are synced within about a second anyhow; for more, set durability to Fsync"
	FlushInterval *metav1.Duration `json:"flushInterval,omitempty"`

	// FileDeleteDelay is Kafka's file.delete.delay.ms. Heartwood deletes a file when its last
	// reader has closed it. Default 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 1m"
	FileDeleteDelay *metav1.Duration `json:"fileDeleteDelay,omitempty"`

	// Preallocate is Kafka's preallocate. Heartwood's files grow as they are written. Default
	// false.
	// +optional
	Preallocate *bool `json:"preallocate,omitempty"`
}

// Compaction configures the cleaner for a topic.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minLag) || !has(self.maxLag) || !self.minLag.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.minLag.size() == 0 || !self.maxLag.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.maxLag.size() == 0 || duration(self.minLag) <= duration(self.maxLag)",fieldPath=".minLag",message="minLag must not be longer than maxLag: lower minLag, or raise maxLag"
type Compaction struct {
	// MinDirtyPercent is the dirty ratio in percent above which a log is cleaned
	// (min.cleanable.dirty.ratio), with decimals if needed, such as 0.1 or 12.5. Default 50.
	// +optional
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:XValidation:rule="self >= 0.0 && self <= 100.0",message="write a percentage from 0 to 100, such as 50 or 0.1"
	MinDirtyPercent *Percent `json:"minDirtyPercent,omitempty"`

	// MaxGarbagePercent is the maximum share of garbage, in percent, in the clean section after a
	// pass. A pass rewrites segments until the share of garbage is below this value. It begins with
	// the segments that free the most bytes for their I/O. With 0, the clean section contains one
	// record per key, at about three times the I/O. Default 20.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	MaxGarbagePercent *int32 `json:"maxGarbagePercent,omitempty"`

	// MinLag is the minimum time for which a record is not compacted (min.compaction.lag.ms).
	// Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 10m or 24h"
	MinLag *metav1.Duration `json:"minLag,omitempty"`

	// MaxLag is the maximum time for which a record can remain uncompacted, regardless of the dirty
	// ratio (max.compaction.lag.ms), at least 1ms. Default: no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms')",message="write a duration in h, m, s and ms, in this order, at least 1ms, such as 24h or 168h"
	MaxLag *metav1.Duration `json:"maxLag,omitempty"`

	// TombstoneRetention is the time for which a tombstone is kept after all older records of its key
	// have been removed (delete.retention.ms). Default 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 24h"
	TombstoneRetention *metav1.Duration `json:"tombstoneRetention,omitempty"`
}

// Compression is a codec and its level (KIP-390).
//
// +kubebuilder:validation:XValidation:rule="!has(self.level) || has(self.type)",fieldPath=".level",message="level belongs to a type: write type, or remove level"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !has(self.type) || !(self.type in ['producer', 'uncompressed', 'snappy'])",fieldPath=".level",message="only gzip, lz4 and zstd have levels: remove level, or choose one of these types"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !has(self.type) || self.type != 'gzip' || (self.level >= 1 && self.level <= 9) || self.level == -1",fieldPath=".level",message="the level of gzip must be 1 to 9, or -1 for its default"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !has(self.type) || self.type != 'lz4' || (self.level >= 1 && self.level <= 17)",fieldPath=".level",message="the level of lz4 must be 1 to 17"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !has(self.type) || self.type != 'zstd' || (self.level >= -131072 && self.level <= 22)",fieldPath=".level",message="the level of zstd must be -131072 to 22"
type Compression struct {
	// Type is the codec. With the value producer, each batch is stored as its producer compressed it.
	// Default: the type and the level in the LogCluster's topicDefaults, or producer.
	// +optional
	Type CompressionType `json:"type,omitempty"`

	// Level is the compression level: gzip 1 to 9 or -1, lz4 1 to 17, zstd -131072 to 22. Default:
	// the codec's default.
	// +optional
	Level *int32 `json:"level,omitempty"`

	// Clean is the compression of batches that the cleaner writes. The clean section of a compacted
	// topic is written once and read for a long time, so a stronger codec can be worth its cost.
	// Batches that the cleaner does not rewrite keep their codec. Default: the compression of new
	// batches.
	// +optional
	Clean *CleanCompression `json:"clean,omitempty"`
}

// CleanCompression is the compression of batches that the cleaner writes.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'producer'",fieldPath=".type",message="the cleaner's codec must be uncompressed, gzip, snappy, lz4 or zstd: remove clean to keep each batch's own codec"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || !(self.type in ['producer', 'uncompressed', 'snappy'])",fieldPath=".level",message="only gzip, lz4 and zstd have levels: remove level, or choose one of these types"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'gzip' || (self.level >= 1 && self.level <= 9) || self.level == -1",fieldPath=".level",message="the level of gzip must be 1 to 9, or -1 for its default"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'lz4' || (self.level >= 1 && self.level <= 17)",fieldPath=".level",message="the level of lz4 must be 1 to 17"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.type != 'zstd' || (self.level >= -131072 && self.level <= 22)",fieldPath=".level",message="the level of zstd must be -131072 to 22"
type CleanCompression struct {
	// Type is the codec.
	Type CompressionType `json:"type"`

	// Level is the compression level: gzip 1 to 9 or -1, lz4 1 to 17, zstd -131072 to 22. Default:
	// the codec's default.
	// +optional
	Level *int32 `json:"level,omitempty"`
}

// Retention limits the age and size of a topic.
type Retention struct {
	// Time is the minimum time for which a record is kept (retention.ms); "-1s" for no limit.
	// Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '-1s' || (self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$'))",message="write a duration in h, m, s and ms, in this order, not negative, such as 168h, or -1s to keep records forever"
	Time *metav1.Duration `json:"time,omitempty"`

	// Size is the partition size above which the oldest segments are deleted (retention.bytes); -1 for
	// no limit. Default: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && (string(self) == '-1' || quantity(string(self)).compareTo(quantity('0')) >= 0) && quantity(string(self)).compareTo(quantity('9223372036854775807')) <= 0",message="write a size in bytes, 0 to 9223372036854775807, such as 10Gi, or -1 for no limit"
	Size *resource.Quantity `json:"size,omitempty"`
}

// Segment configures when a segment is rolled.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(self.maxAge) || !isQuantity(string(self.size)) || quantity(string(self.size)).compareTo(quantity('16Ki')) >= 0 || self.maxAge.size() == 0 || !self.maxAge.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || duration(self.maxAge) >= duration('1s')",fieldPath=".maxAge",message="segments below 16Ki that are rolled more often than once a second exhaust the broker's files: raise size or maxAge"
type Segment struct {
	// Size is the maximum size of a segment (segment.bytes), 1Ki to 2147483647 bytes. Default 1Gi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a segment size of 1Ki to 2147483647 bytes, such as 512Mi or 1Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// MaxAge is the age at which a segment is rolled, even if no records are written (segment.ms),
	// at least 1ms. Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms')",message="write a duration in h, m, s and ms, in this order, at least 1ms, such as 168h"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// Jitter is the maximum time by which a segment is rolled earlier than maxAge (segment.jitter.ms).
	// Each segment uses a different fraction of this time, which prevents all segments from being
	// rolled at the same time. Default 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$')",message="write a duration in h, m, s and ms, in this order, not negative, such as 10m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`

	// IndexSize is the maximum size of a segment's index files (segment.index.bytes), 1Ki to
	// 2147483647 bytes. A segment with a full index is rolled. The setting applies to new segments.
	// Default 10Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 1Ki to 2147483647 bytes, such as 10Mi"
	IndexSize *resource.Quantity `json:"indexSize,omitempty"`

	// IndexInterval is the number of record bytes between two index entries (index.interval.bytes), 0
	// to 2147483647. The setting applies to new segments. Default 4Ki.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('2147483647')) <= 0",message="write a size of 0 to 2147483647 bytes, such as 4Ki"
	IndexInterval *resource.Quantity `json:"indexInterval,omitempty"`
}
