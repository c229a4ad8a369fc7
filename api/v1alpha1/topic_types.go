package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topic is a topic: the resource is the topic, there is no second record of it. Its Kafka topic id
// is its metadata.uid. The annotation heartwood.dev/clean-now has each replica of a compacted topic
// cleaned once for each value that it gets; status.compaction.cleanNow tells how far that is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lt
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.spec.partitions`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Dirty",type=string,JSONPath=`.status.compaction.dirty`
// +kubebuilder:printcolumn:name="Reclaimable",type=string,JSONPath=`.status.compaction.reclaimable`
// +kubebuilder:printcolumn:name="Cleaner",type=string,JSONPath=`.status.compaction.phase`
// +kubebuilder:printcolumn:name="Under-Replicated",type=integer,priority=1,JSONPath=`.status.underReplicated`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Compacting")].reason`
// +kubebuilder:printcolumn:name="Progress",type=integer,priority=1,JSONPath=`.status.compaction.progressPercent`
// +kubebuilder:printcolumn:name="Last Cleaned",type=date,priority=1,JSONPath=`.status.compaction.lastCleaned`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 240",message="metadata.name must have at most 240 characters, as Partitions are named after it: choose a shorter one, and set spec.topicName for a long name"
type Topic struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TopicSpec   `json:"spec"`
	Status TopicStatus `json:"status,omitempty"`
}

// TopicSpec is what the user wants of a topic.
//
// +kubebuilder:validation:XValidation:rule="has(self.topicName) == has(oldSelf.topicName)",message="topicName cannot be set, changed or removed later: make a new Topic"
// +kubebuilder:validation:XValidation:rule="!has(self.topicName) || !(self.topicName in ['__consumer_offsets', '__transaction_state']) || !has(self.partitions) || !has(oldSelf.partitions) || self.partitions == oldSelf.partitions",fieldPath=".partitions",message="the number of partitions of this topic cannot be changed: a group is in the one that the hash of its name and their number say, and would lose its offsets"
type TopicSpec struct {
	// Cluster is the name of the LogCluster, in the same namespace, that holds the topic. Cannot be
	// changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster cannot be changed: make a new Topic in the other cluster"
	Cluster string `json:"cluster"`

	// TopicName is the name clients use, when it is no DNS name. Default: metadata.name. Cannot be
	// changed.
	// +optional
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9._-]+$') && self != '.' && self != '..'",message="topicName may hold letters, digits, dots, underscores and dashes only, and must not be '.' or '..'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="topicName cannot be set, changed or removed later: make a new Topic"
	TopicName string `json:"topicName,omitempty"`

	// Partitions is their number; it can grow, never shrink (of the brokers' own topics it cannot
	// change at all). Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="partitions cannot shrink, as records would be lost: keep their number, or make a new Topic"
	Partitions int32 `json:"partitions,omitempty"`

	TopicSettings `json:",inline"`

	// ReclaimPolicy says what becomes of the records when the Topic is deleted. Default Retain:
	// a Topic of the same name made later takes them up again.
	// +optional
	// +kubebuilder:default=Retain
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
}

// TopicStatus is what Heartwood sees of a topic. The operator writes it.
type TopicStatus struct {
	// ObservedGeneration is the metadata.generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// TopicID is the Kafka topic id, as Kafka's tools print it (22 characters of URL-safe base64).
	// +optional
	TopicID string `json:"topicID,omitempty"`

	// Partitions is how many of the topic's Partition resources exist.
	// +kubebuilder:default=0
	Partitions int32 `json:"partitions"`

	// ReadyPartitions is how many of them have a serving leader.
	// +kubebuilder:default=0
	ReadyPartitions int32 `json:"readyPartitions"`

	// UnderReplicated is how many of them have no leader, or not all their replicas in sync.
	// +kubebuilder:default=0
	UnderReplicated int32 `json:"underReplicated"`

	// Compression is how batches are stored, with the cluster's defaults and the codec's own in
	// their places.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`

	// Compaction sums up the cleaner's work over all partitions; absent when the topic is not
	// compacted.
	// +optional
	Compaction *CompactionStatus `json:"compaction,omitempty"`

	// Conditions: Ready, Replicated, Compacting.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CompressionStatus is what really happens to a topic's batches.
type CompressionStatus struct {
	// Type is the codec of what is stored; producer keeps each batch as its producer compressed it.
	Type CompressionType `json:"type"`
	// Level is the level in force; absent for a codec without levels.
	// +optional
	Level *int32 `json:"level,omitempty"`
	// Encoder is what the brokers compress with at this level, such as "zstd best (as levels 10 to
	// 22)": the Go encoders have fewer settings than the codec has levels. Absent when the brokers
	// do not compress.
	// +optional
	Encoder string `json:"encoder,omitempty"`
	// Clean is what the cleaner compresses what it writes with, when compression.clean asks for
	// another codec; absent: the above, or each batch's own where the topic keeps the producer's.
	// +optional
	Clean *CleanCompressionStatus `json:"clean,omitempty"`
}

// CleanCompressionStatus is what the cleaner compresses with: type, level and encoder as in
// CompressionStatus.
type CleanCompressionStatus struct {
	Type CompressionType `json:"type"`
	// +optional
	Level *int32 `json:"level,omitempty"`
	// +optional
	Encoder string `json:"encoder,omitempty"`
}

// CompactionStatus sums up the cleaner's work on a topic. Each replica has a cleaner of its own:
// sizes, phase and progress are those of the partitions' leaders, so that a copy is not counted
// twice; cleanNow is of all replicas.
//
// Numbers are rounded, and one that alone has changed is written once in a while, not whenever it
// changes. The brokers' metrics and GET /api/v1/partitions have them as they are.
type CompactionStatus struct {
	// Dirty is the share of cleanable bytes that is dirty, such as "37%": the largest of any
	// partition.
	// +optional
	Dirty string `json:"dirty,omitempty"`
	// Reclaimable is what a clean would free, over all partitions, to two digits; absent while
	// unknown.
	// +optional
	Reclaimable *resource.Quantity `json:"reclaimable,omitempty"`
	// Phase is the busiest phase of any partition: Idle, Queued, Indexing, Deduplicating, Rewriting
	// or Committing.
	// +optional
	Phase string `json:"phase,omitempty"`
	// ProgressPercent is how much of the running passes is done, each weighed alike; absent while
	// none runs.
	// +optional
	ProgressPercent *int32 `json:"progressPercent,omitempty"`
	// ETA is when the last of the running passes will end, at its pace so far; absent while none
	// runs.
	// +optional
	ETA *metav1.Time `json:"eta,omitempty"`
	// LastCleaned is when a partition was last cleaned: the oldest of all partitions that ever
	// were.
	// +optional
	LastCleaned *metav1.Time `json:"lastCleaned,omitempty"`
	// CleanNow is what became of the annotation heartwood.dev/clean-now; absent without one.
	// +optional
	CleanNow *CleanNowStatus `json:"cleanNow,omitempty"`
}

// CleanNowStatus is what became of the annotation heartwood.dev/clean-now.
type CleanNowStatus struct {
	// Value is the annotation's, cut off as Topic.CleanNow does.
	Value string `json:"value"`
	// State is Pending until a replica works on it, Running while one does, Failed while no replica
	// works on it and one of them has failed (it is tried again with back-off), and Done when each
	// replica was cleaned.
	State CleanNowState `json:"state"`
	// Replicas is how many replicas were cleaned for this value, such as "2/3".
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// Finished is when the last replica was; absent before State is Done.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
}

// CleanNowState is how far a request to clean now is.
//
// +kubebuilder:validation:Enum=Pending;Running;Failed;Done
type CleanNowState string

// States of a request to clean now.
const (
	CleanNowPending CleanNowState = "Pending"
	CleanNowRunning CleanNowState = "Running"
	CleanNowFailed  CleanNowState = "Failed"
	CleanNowDone    CleanNowState = "Done"
)

// TopicList is a list of topics.
//
// +kubebuilder:object:root=true
type TopicList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topic `json:"items"`
}

// KafkaName returns the name clients know the topic by.
func (t *Topic) KafkaName() string {
	if t.Spec.TopicName != "" {
		return t.Spec.TopicName
	}
	return t.Name
}

// OlderThan orders Topics by age, and those of the same second by name. Of several that claim one
// Kafka name the oldest has it: to the operator and to brokers alike.
func (t *Topic) OlderThan(other *Topic) bool {
	if !t.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return t.CreationTimestamp.Before(&other.CreationTimestamp)
	}
	return t.Name < other.Name
}

// CleanNowBytesMax is how much of the annotation heartwood.dev/clean-now counts, in bytes.
const CleanNowBytesMax = 128

// CleanNow returns the value of the annotation heartwood.dev/clean-now, "" if there is none; of a
// longer one its first CleanNowBytesMax bytes. Each replica is cleaned once for each value; one
// that comes back after another counts as new.
func (t *Topic) CleanNow() string {
	value := t.Annotations[AnnotationCleanNow]
	if len(value) > CleanNowBytesMax {
		// A character that is cut in two goes whole: the value travels as JSON.
		return strings.ToValidUTF8(value[:CleanNowBytesMax], "")
	}
	return value
}
