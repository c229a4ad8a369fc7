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
type TopicSettings struct {
	// Replicas is the number of brokers that hold each partition. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`

	// MinInSyncReplicas is how many replicas must hold a record before an acks=all write is acknowledged. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	MinInSyncReplicas *int32 `json:"minInSyncReplicas,omitempty"`

	// CleanupPolicy is Delete, Compact or CompactDelete. Default Delete.
	// +optional
	CleanupPolicy CleanupPolicy `json:"cleanupPolicy,omitempty"`

	// Compaction says when the cleaner works on the topic. Only for the policies Compact and CompactDelete.
	// +optional
	Compaction *Compaction `json:"compaction,omitempty"`

	// Compression of what is stored, for fresh batches and for those the cleaner rebuilds. Default type producer.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// Retention bounds the topic's age and size. Only for the policies Delete and CompactDelete.
	// +optional
	Retention *Retention `json:"retention,omitempty"`

	// Segment says when a new segment file begins.
	// +optional
	Segment *Segment `json:"segment,omitempty"`

	// MaxMessageSize is the largest record batch taken, as it comes in (compressed). Default 1048588 bytes.
	// +optional
	MaxMessageSize *resource.Quantity `json:"maxMessageSize,omitempty"`

	// TimestampType is CreateTime (the producer's clock) or LogAppendTime (the broker's). Default CreateTime.
	// +optional
	TimestampType TimestampType `json:"timestampType,omitempty"`
}

// Compaction says when the cleaner works on a topic.
type Compaction struct {
	// MinDirtyPercent is the share of the log that must be dirty before a clean, as Kafka's min.cleanable.dirty.ratio. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MinDirtyPercent *int32 `json:"minDirtyPercent,omitempty"`

	// MinLag is how long a record stays uncleaned at least. Default 0s.
	// +optional
	MinLag *metav1.Duration `json:"minLag,omitempty"`

	// MaxLag is how long a record may stay uncleaned, whatever the dirty percentage. Default: no limit.
	// +optional
	MaxLag *metav1.Duration `json:"maxLag,omitempty"`

	// TombstoneRetention is how long a tombstone stays after the values it deletes are gone. Default 24h.
	// +optional
	TombstoneRetention *metav1.Duration `json:"tombstoneRetention,omitempty"`
}

// Compression is a codec and its level (KIP-390).
type Compression struct {
	// Type is the codec; producer keeps each batch as its producer compressed it.
	Type CompressionType `json:"type"`

	// Level is the codec's own: gzip 1..9, lz4 1..17, zstd -131072..22. Default: the codec's.
	// +optional
	Level *int32 `json:"level,omitempty"`
}

// Retention bounds a topic's age and size.
type Retention struct {
	// Time is how long a record is kept at least. Default 168h; "-1s" keeps records for ever.
	// +optional
	Time *metav1.Duration `json:"time,omitempty"`

	// Size is how large a partition may grow before its oldest segments go. Default: no limit.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// Segment says when a new segment file begins.
type Segment struct {
	// Size is a segment's largest size. Default 1Gi.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// MaxAge is how long a segment takes records at most, also when nothing is written. Default 168h.
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}
