package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topic is a topic. Only this resource stores the topic's definition. Its Kafka topic id is the
// resource's metadata.uid. Each new value of the annotation heartwood.dev/clean-now on a compacted
// topic requests one clean of each replica; status.compaction.cleanNow reports the progress. The
// annotation heartwood.dev/reassign moves partitions to other brokers, such as "0=1,2,3 4=2,3,0".
// The annotation heartwood.dev/accept-data-loss lets a partition continue without lost records;
// status.problems contains the annotation's value.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lt,categories=heartwood
// +kubebuilder:printcolumn:name="Topic",type=string,JSONPath=`.status.topicName`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.spec.partitions`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Dirty",type=integer,JSONPath=`.status.compaction.dirtyPercent`
// +kubebuilder:printcolumn:name="Reclaimable",type=string,JSONPath=`.status.compaction.reclaimable`
// +kubebuilder:printcolumn:name="Cleaner",type=string,JSONPath=`.status.compaction.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Under-Replicated",type=integer,priority=1,JSONPath=`.status.underReplicatedPartitions`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Compacting")].reason`
// +kubebuilder:printcolumn:name="Progress",type=integer,priority=1,JSONPath=`.status.compaction.progressPercent`
// +kubebuilder:printcolumn:name="Last-Cleaned",type=date,priority=1,JSONPath=`.status.compaction.lastCleanTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.topicName) || self.metadata.name.size() <= 249",message="metadata.name must have at most 249 characters, as it is the topic's name in Kafka: choose a shorter one"
type Topic struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec TopicSpec `json:"spec"`
	// Status is the observed state. The operator writes it. Its observedGeneration is -1 until the
	// operator has observed the resource.
	// +kubebuilder:default={"observedGeneration":-1,"partitions":0,"readyPartitions":0,"underReplicatedPartitions":0}
	Status TopicStatus `json:"status,omitempty"`
}

// TopicSpec is the desired state of a Topic.
//
// +kubebuilder:validation:XValidation:rule="has(self.partitions) || !has(oldSelf.partitions)",fieldPath=".partitions",message="partitions cannot be removed, as a topic keeps its number of partitions: write the present number"
// +kubebuilder:validation:XValidation:rule="has(self.topicName) == has(oldSelf.topicName)",message="topicName cannot be set, changed or removed later: make a new Topic"
// +kubebuilder:validation:XValidation:rule="!has(self.topicName) || !(self.topicName in ['__consumer_offsets', '__transaction_state']) || !has(self.partitions) || !has(oldSelf.partitions) || self.partitions == oldSelf.partitions",fieldPath=".partitions",message="the number of partitions of this topic cannot be changed: it determines the partition of each group, so groups would lose their offsets"
// +kubebuilder:validation:XValidation:rule="!has(self.topicName) || !(self.topicName in ['__consumer_offsets', '__transaction_state']) || !has(self.cleanupPolicy) || self.cleanupPolicy == 'Compact'",fieldPath=".cleanupPolicy",message="cleanupPolicy of this topic must be Compact: with Delete, committed offsets or transactional ids would expire"
// +kubebuilder:validation:XValidation:rule="!has(self.topicName) || !(self.topicName in ['__consumer_offsets', '__transaction_state']) || has(self.cleanupPolicy) || !has(oldSelf.cleanupPolicy)",fieldPath=".cleanupPolicy",message="cleanupPolicy of this topic cannot be removed: keep Compact"
// +kubebuilder:validation:XValidation:rule="!has(self.topicName) || !(self.topicName in ['__consumer_offsets', '__transaction_state']) || !has(self.retention)",fieldPath=".retention",message="this topic has no retention, as committed offsets or transactional ids would expire: remove retention"
type TopicSpec struct {
	// Cluster is the name of the LogCluster that stores the topic, in the same namespace. It cannot be
	// changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster cannot be changed: make a new Topic in the other cluster"
	Cluster string `json:"cluster"`

	// TopicName is the topic's name in Kafka, if it is not a valid resource name. It cannot be
	// changed. Default: metadata.name.
	// +optional
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9._-]+$') && self != '.' && self != '..'",message="topicName may hold letters, digits, dots, underscores and dashes only, and must not be '.' or '..'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="topicName cannot be set, changed or removed later: make a new Topic"
	TopicName string `json:"topicName,omitempty"`

	// Partitions is the number of partitions. The number can be raised but not lowered; for internal
	// topics such as __consumer_offsets it cannot be changed. If it is absent, the operator sets it
	// once, before it assigns the partitions: to the LogCluster's topicDefaults.partitions, or 1. For
	// __consumer_offsets, it is set to groups.offsetsTopic.partitions, or 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="partitions cannot shrink, as records would be lost: keep their number, or make a new Topic"
	Partitions int32 `json:"partitions,omitempty"`

	// InitialReplicas contains the replicas of new partitions for which the operator must not choose
	// the brokers (Kafka's manual replica assignment). The operator uses an entry when it assigns the
	// new partition. To move an existing partition, use the annotation heartwood.dev/reassign or
	// Kafka's tools.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	// +listType=atomic
	InitialReplicas []InitialReplicas `json:"initialReplicas,omitempty"`

	TopicSettings `json:",inline"`

	// ReclaimPolicy determines what happens to the records when the Topic is deleted: Retain or
	// Delete. Default Retain: a later Topic of the same name continues with the records.
	// +optional
	// +kubebuilder:default=Retain
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
}

// InitialReplicas contains the replicas for a new partition.
type InitialReplicas struct {
	// Partition is the partition's index, from 0. Each partition has at most one entry.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9999
	Partition int32 `json:"partition"`
	// Replicas contains the ids of the brokers for the partition's replicas, the preferred leader
	// first. Their number must equal the topic's number of replicas.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:Minimum=0
	// +listType=set
	Replicas []int32 `json:"replicas"`
}

// TopicProblemsMax is the maximum number of partitions in a Topic's status.problems.
const TopicProblemsMax = 5

// TopicStatus is the observed state of a Topic. The operator writes it.
type TopicStatus struct {
	// ObservedGeneration is the metadata.generation on which this status is based.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// TopicName is the topic's name in Kafka.
	// +optional
	TopicName string `json:"topicName,omitempty"`

	// TopicID is the Kafka topic id in the form that Kafka's tools print: 22 characters of URL-safe
	// base64.
	// +optional
	TopicID string `json:"topicID,omitempty"`

	// Partitions is the number of partitions that are assigned to brokers.
	// +kubebuilder:default=0
	Partitions int32 `json:"partitions"`

	// ReadyPartitions is the number of partitions with a serving leader.
	// +kubebuilder:default=0
	ReadyPartitions int32 `json:"readyPartitions"`

	// UnderReplicatedPartitions is the number of partitions that have no leader or have a replica that
	// is not in sync.
	// +kubebuilder:default=0
	UnderReplicatedPartitions int32 `json:"underReplicatedPartitions"`

	// Problems contains at most 5 of the partitions that do not serve or are not fully replicated, the
	// worst first. "heartwood partitions <topic>" prints all partitions.
	// +optional
	// +kubebuilder:validation:MaxItems=5
	// +listType=map
	// +listMapKey=partition
	Problems []PartitionProblem `json:"problems,omitempty"`

	// Compression is the effective compression of stored batches, including the defaults of the
	// cluster and of the codec.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`

	// Compaction summarizes compaction over all partitions. It is absent if the topic is not
	// compacted.
	// +optional
	Compaction *CompactionStatus `json:"compaction,omitempty"`

	// Conditions are Ready, Replicated, Compacting, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PartitionProblem describes why a partition does not serve, or is not fully replicated.
type PartitionProblem struct {
	// Partition is the partition's number.
	Partition int32 `json:"partition"`
	// Reason is ReplicaLost, InvalidEntry, LeaderOffline, LeaderFailed, LeaderStarting, Unassigned,
	// Reassigning or UnderReplicated.
	Reason string `json:"reason"`
	// Message describes what the partition waits for, and what to do.
	Message string `json:"message"`
	// Brokers contains the brokers whose replicas are not in sync, or for which a partition without a
	// leader waits.
	// +optional
	// +listType=atomic
	Brokers []int32 `json:"brokers,omitempty"`
	// Consent is the value for this partition in the annotation heartwood.dev/accept-data-loss. It
	// lets the partition continue without the records for which it waits. It is absent if the
	// partition cannot, or does not have to, continue without these records.
	// +optional
	Consent string `json:"consent,omitempty"`
}

// CompressionStatus is the effective compression of a topic's batches.
type CompressionStatus struct {
	// Type is the codec of stored batches. The value producer means that each batch is stored as
	// its producer compressed it.
	Type CompressionType `json:"type"`
	// Level is the effective compression level. It is absent for a codec without levels.
	// +optional
	Level *int32 `json:"level,omitempty"`
	// Encoder is the Go encoder's setting for this level, such as "zstd best (as levels 10 to 22)".
	// The encoders have fewer settings than the codecs have levels. Encoder is absent if the brokers
	// do not compress.
	// +optional
	Encoder string `json:"encoder,omitempty"`
	// Clean is the compression of batches that the cleaner writes, if compression.clean is set.
	// Otherwise the cleaner uses type and level above; with type producer it keeps each batch's own
	// codec.
	// +optional
	Clean *CleanCompressionStatus `json:"clean,omitempty"`
}

// CleanCompressionStatus is the effective compression of batches that the cleaner writes. Its
// fields have the same meaning as in CompressionStatus.
type CleanCompressionStatus struct {
	// Type is the codec.
	Type CompressionType `json:"type"`
	// Level is the effective compression level. It is absent for a codec without levels.
	// +optional
	Level *int32 `json:"level,omitempty"`
	// Encoder is the Go encoder's setting for this level.
	// +optional
	Encoder string `json:"encoder,omitempty"`
}

// CompactionStatus summarizes the compaction of a topic. Each replica has its own cleaner. Sizes,
// phase and progress come from the leaders only, so each partition is included once; cleanNow
// covers all replicas.
//
// Numbers are rounded. If only numbers have changed, the status is written at a limited rate. The
// brokers' metrics and GET /api/v1/partitions contain the exact values.
type CompactionStatus struct {
	// DirtyPercent is the largest dirty ratio of any partition, in percent. It is absent while no
	// leader has reported.
	// +optional
	DirtyPercent *int32 `json:"dirtyPercent,omitempty"`
	// Reclaimable is the number of bytes that a clean of all partitions would free, rounded to
	// about 3 percent. It is absent while unknown.
	// +optional
	Reclaimable *resource.Quantity `json:"reclaimable,omitempty"`
	// Phase is the most active phase of any partition: Idle, Queued, Indexing, Deduplicating,
	// Rewriting or Committing.
	// +optional
	Phase string `json:"phase,omitempty"`
	// ProgressPercent is the mean progress of the running passes. It is absent while no pass is
	// running.
	// +optional
	ProgressPercent *int32 `json:"progressPercent,omitempty"`
	// EstimatedCompletionTime is the estimated time at which the last of the running passes ends. It
	// is absent while no pass is running.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`
	// LastCleanTime is the oldest of the partitions' times of their last successful pass.
	// +optional
	LastCleanTime *metav1.Time `json:"lastCleanTime,omitempty"`
	// CleanNow is the state of the clean that the annotation heartwood.dev/clean-now requests. It is
	// absent without the annotation.
	// +optional
	CleanNow *CleanNowStatus `json:"cleanNow,omitempty"`
}

// CleanNowStatus is the state of the clean that the annotation heartwood.dev/clean-now requests.
type CleanNowStatus struct {
	// Value is the annotation's value, truncated to 128 bytes.
	Value string `json:"value"`
	// State is Running while a replica is being cleaned. Otherwise it is Failed if a pass of any
	// replica has failed (the pass is retried with backoff), Done if every replica has been
	// cleaned, and Pending in all other cases.
	State CleanNowState `json:"state"`
	// Replicas is the number of replicas that were cleaned for this value, and the number of all
	// replicas, such as "2/3".
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// CompletionTime is the time at which the last replica was cleaned. It is absent until State is
	// Done.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// CleanNowState is the state of a requested clean.
//
// +kubebuilder:validation:Enum=Pending;Running;Failed;Done
type CleanNowState string

// Values of CleanNowStatus.State.
const (
	CleanNowPending CleanNowState = "Pending"
	CleanNowRunning CleanNowState = "Running"
	CleanNowFailed  CleanNowState = "Failed"
	CleanNowDone    CleanNowState = "Done"
)

// TopicList is a list of Topics.
//
// +kubebuilder:object:root=true
type TopicList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topic `json:"items"`
}

// KafkaName returns the topic's name in Kafka.
func (t *Topic) KafkaName() string {
	if t.Spec.TopicName != "" {
		return t.Spec.TopicName
	}
	return t.Name
}

// OlderThan reports whether a Topic is older than another one. Creation times have a resolution of
// one second; Topics with the same creation time are ordered by name. If several Topics have the
// same Kafka name, operator and brokers use the oldest Topic.
func (t *Topic) OlderThan(other *Topic) bool {
	if !t.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return t.CreationTimestamp.Before(&other.CreationTimestamp)
	}
	return t.Name < other.Name
}

// CleanNowBytesMax is the number of bytes to which the value of annotation heartwood.dev/clean-now
// is truncated.
const CleanNowBytesMax = 128

// CleanNow returns the value of the annotation heartwood.dev/clean-now, truncated to
// CleanNowBytesMax bytes, or "" if there is none. Each replica is cleaned once for each new value.
// An earlier value counts as new if the annotation has had another value since then.
func (t *Topic) CleanNow() string {
	value := t.Annotations[AnnotationCleanNow]
	if len(value) > CleanNowBytesMax {
		// ToValidUTF8 removes a truncated character at the end, because the value is sent as JSON.
		return strings.ToValidUTF8(value[:CleanNowBytesMax], "")
	}
	return value
}
