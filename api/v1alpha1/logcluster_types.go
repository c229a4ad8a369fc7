package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogCluster is a set of brokers that hold topics.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lc
// +kubebuilder:printcolumn:name="Brokers",type=integer,JSONPath=`.spec.brokers`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyBrokers`
// +kubebuilder:printcolumn:name="Topics",type=integer,JSONPath=`.status.topics`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.status.partitions`
// +kubebuilder:printcolumn:name="Under-Replicated",type=integer,JSONPath=`.status.underReplicated`
// +kubebuilder:printcolumn:name="Bootstrap",type=string,JSONPath=`.status.bootstrap`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name must begin with a letter, hold only lower-case letters, digits and dashes, and have at most 40 characters: Services and Pods are named after it"
type LogCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={}
	Spec   LogClusterSpec   `json:"spec,omitempty"`
	Status LogClusterStatus `json:"status,omitempty"`
}

// LogClusterSpec is what the user wants of a cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topicDefaults) || !has(self.topicDefaults.replicas) || self.topicDefaults.replicas <= self.brokers",fieldPath=".topicDefaults.replicas",message="topicDefaults.replicas must not be more than brokers: lower it, or raise brokers"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || !has(self.groups.offsetsTopic) || !has(self.groups.offsetsTopic.replicas) || self.groups.offsetsTopic.replicas <= self.brokers",fieldPath=".groups.offsetsTopic.replicas",message="groups.offsetsTopic.replicas must not be more than brokers: lower it, or raise brokers"
type LogClusterSpec struct {
	// Brokers is their number; node ids are 0 to brokers-1. When it is lowered, the brokers with
	// the highest ids go once they hold nothing any more; condition Scaled tells.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Brokers int32 `json:"brokers,omitempty"`

	// Image is the brokers' image. Default: the operator's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// Storage is each broker's volume.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitzero"`

	// Resources of each broker's container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Listeners are the ports clients come in by.
	// +optional
	// +kubebuilder:default={}
	Listeners *Listeners `json:"listeners,omitempty"`

	// RackKey is the node label that tells a broker's rack. Brokers are spread over its values.
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="rackKey must be the key of a node label, such as topology.kubernetes.io/zone"
	RackKey string `json:"rackKey,omitempty"`

	// Cleaner is each broker's budget for cleaning.
	// +optional
	Cleaner *Cleaner `json:"cleaner,omitempty"`

	// Replication says how brokers copy from each other.
	// +optional
	Replication *Replication `json:"replication,omitempty"`

	// Groups bounds consumer groups.
	// +optional
	Groups *Groups `json:"groups,omitempty"`

	// TopicDefaults are used for what a Topic leaves out.
	// +optional
	TopicDefaults *TopicSettings `json:"topicDefaults,omitempty"`

	// AutoCreateTopics makes a Topic, with the topicDefaults, when a client asks for one that is
	// not there and allows it. Default false: a name that was mistyped is an error.
	// +optional
	AutoCreateTopics bool `json:"autoCreateTopics,omitempty"`

	// AdminAPI is ReadWrite (Kafka's admin tools change Topic resources) or ReadOnly (they may
	// look, and changes come by kubectl alone: admin requests that change anything are refused with
	// POLICY_VIOLATION). Default ReadWrite.
	// +optional
	AdminAPI AdminAPI `json:"adminApi,omitempty"`
}

// AdminAPI says what Kafka's admin requests may do.
// +kubebuilder:validation:Enum=ReadWrite;ReadOnly
type AdminAPI string

const (
	// AdminReadWrite lets Kafka's admin requests change Topic resources.
	AdminReadWrite AdminAPI = "ReadWrite"
	// AdminReadOnly refuses them.
	AdminReadOnly AdminAPI = "ReadOnly"
)

// Storage is a broker's volume.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) == has(oldSelf.className)",message="className cannot be set, changed or removed later: make a new LogCluster"
type Storage struct {
	// Size of the volume. Default 10Gi.
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('100Mi')) >= 0",message="write a volume size of at least 100Mi, such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) == 0",message="storage.size cannot be changed yet, as a StatefulSet keeps the size of its volumes: keep it, or make a new LogCluster"
	Size resource.Quantity `json:"size,omitzero"`
	// ClassName is the StorageClass. Default: the cluster's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="className cannot be set, changed or removed later: make a new LogCluster"
	ClassName *string `json:"className,omitempty"`
	// ReclaimPolicy says what becomes of the volumes when the LogCluster is deleted. Default
	// Retain.
	// +optional
	// +kubebuilder:default=Retain
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
}

// Resources are compute resources, as in a container.
type Resources struct {
	// Requests are what the scheduler sets aside.
	// +optional
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
	// Limits are what the container may use at most.
	// +optional
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
}

// Listeners are the ports clients come in by.
type Listeners struct {
	// Port is the plain Kafka listener inside the Kubernetes cluster. Default 9092.
	// +optional
	// +kubebuilder:default=9092
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// Cleaner is a broker's budget for cleaning.
type Cleaner struct {
	// Workers is how many partitions or slices are worked on at once. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Workers *int32 `json:"workers,omitempty"`
	// Memory is what all workers together may use. Default 128Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="write a size of at least 1Mi, such as 128Mi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// IORate bounds reads plus writes, in bytes a second. Default: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"
	IORate *resource.Quantity `json:"ioRate,omitempty"`
}

// Replication says how brokers copy from each other. Changes take effect at once.
type Replication struct {
	// LagMax is how long a follower may be behind its leader before it is out of sync. Default 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="write a duration of 1s to 1h, such as 10s"
	LagMax *metav1.Duration `json:"lagMax,omitempty"`
	// CatchUpRate bounds what each broker sends to replicas that are not in sync, new ones and
	// those that were away, in bytes a second. Those in sync are never held back, as producers wait
	// for them. Default: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"
	CatchUpRate *resource.Quantity `json:"catchUpRate,omitempty"`
}

// Groups bounds consumer groups. Changes take effect at once, but for offsetsTopic.
//
// +kubebuilder:validation:XValidation:rule="!has(self.sessionTimeoutMin) || !has(self.sessionTimeoutMax) || !self.sessionTimeoutMin.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.sessionTimeoutMin.size() == 0 || !self.sessionTimeoutMax.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.sessionTimeoutMax.size() == 0 || duration(self.sessionTimeoutMin) <= duration(self.sessionTimeoutMax)",fieldPath=".sessionTimeoutMin",message="sessionTimeoutMin must not be longer than sessionTimeoutMax: lower it, or raise sessionTimeoutMax"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerHeartbeatInterval) || !self.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerHeartbeatInterval.size() == 0 || has(self.consumerSessionTimeout) && (!self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0) || duration(self.consumerHeartbeatInterval) < duration(has(self.consumerSessionTimeout) ? self.consumerSessionTimeout : '45s')",fieldPath=".consumerHeartbeatInterval",message="consumerHeartbeatInterval must be shorter than consumerSessionTimeout: lower it, or raise consumerSessionTimeout"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerSessionTimeout) || has(self.consumerHeartbeatInterval) || !self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0 || duration(self.consumerSessionTimeout) > duration('5s')",fieldPath=".consumerSessionTimeout",message="consumerSessionTimeout must be longer than consumerHeartbeatInterval, which is 5s: raise it, or set consumerHeartbeatInterval"
type Groups struct {
	// SessionTimeoutMin is the shortest session.timeout.ms that a member may ask for
	// (group.min.session.timeout.ms). Default 6s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms') && duration(self) <= duration('30m')",message="write a duration of 1ms to 30m, such as 6s"
	SessionTimeoutMin *metav1.Duration `json:"sessionTimeoutMin,omitempty"`
	// SessionTimeoutMax is the longest (group.max.session.timeout.ms): as long may a group wait for
	// a member that has died. Default 30m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('6s') && duration(self) <= duration('24h')",message="write a duration of 6s to 24h, such as 30m"
	SessionTimeoutMax *metav1.Duration `json:"sessionTimeoutMax,omitempty"`
	// InitialRebalanceDelay is how long an empty group's first member waits for others, so that a
	// fleet that starts rebalances once (group.initial.rebalance.delay.ms); 0s: not at all. Default
	// 3s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('0s') && duration(self) <= duration('5m')",message="write a duration of 0s to 5m, such as 3s"
	InitialRebalanceDelay *metav1.Duration `json:"initialRebalanceDelay,omitempty"`
	// MembersMax is how many members a group may have (group.max.size). Default: no limit but that
	// a group must fit a record of 1 MB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MembersMax *int32 `json:"membersMax,omitempty"`
	// OffsetsRetention is how long committed offsets stay once their group has no members, or none
	// that asks for their topic (offsets.retention.minutes). Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1m') && duration(self) <= duration('999999h')",message="write a duration of 1m to 999999h, such as 168h"
	OffsetsRetention *metav1.Duration `json:"offsetsRetention,omitempty"`
	// OffsetsCheckInterval is how often offsets are looked through for those
	// (offsets.retention.check.interval.ms). Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 10m"
	OffsetsCheckInterval *metav1.Duration `json:"offsetsCheckInterval,omitempty"`
	// OffsetMetadataMax is the largest metadata of a committed offset (offset.metadata.max.bytes).
	// Default 4Ki.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('30Ki')) <= 0",message="write a size of 0 to 30Ki, such as 4Ki"
	OffsetMetadataMax *resource.Quantity `json:"offsetMetadataMax,omitempty"`
	// ConsumerSessionTimeout is after how long a member of the consumer protocol that is not heard
	// of is out (group.consumer.session.timeout.ms). Default 45s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 45s"
	ConsumerSessionTimeout *metav1.Duration `json:"consumerSessionTimeout,omitempty"`
	// ConsumerHeartbeatInterval is how often members of the consumer protocol are told to be heard
	// of, and so how soon they hear of changes (group.consumer.heartbeat.interval.ms). Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="write a duration of 100ms to 1h, such as 5s"
	ConsumerHeartbeatInterval *metav1.Duration `json:"consumerHeartbeatInterval,omitempty"`
	// OffsetsTopic is how __consumer_offsets is made, by the first client that asks for a group.
	// One that is there already stays as it is, and other settings of it are its Topic's.
	// +optional
	OffsetsTopic *OffsetsTopic `json:"offsetsTopic,omitempty"`
}

// OffsetsTopic is the topic that groups and their offsets are stored in.
type OffsetsTopic struct {
	// Partitions is their number (offsets.topic.num.partitions). A group is where its name's hash
	// says, so it can never change. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Partitions *int32 `json:"partitions,omitempty"`
	// Replicas is the number of brokers that hold each partition
	// (offsets.topic.replication.factor). Default 3, or as many as there are brokers, if fewer.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`
}

// LogClusterStatus is what Heartwood sees of a cluster. The operator writes it.
type LogClusterStatus struct {
	// ObservedGeneration is the metadata.generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyBrokers is how many brokers are up: their pods are ready, and they renew their Leases.
	// +kubebuilder:default=0
	ReadyBrokers int32 `json:"readyBrokers"`
	// Bootstrap is the address that clients start from, host:port.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
	// Topics is how many topics the cluster holds.
	// +kubebuilder:default=0
	Topics int32 `json:"topics"`
	// Partitions is how many partitions the cluster holds.
	// +kubebuilder:default=0
	Partitions int32 `json:"partitions"`
	// UnderReplicated is how many partitions have no leader, or fewer in-sync replicas than
	// replicas.
	// +kubebuilder:default=0
	UnderReplicated int32 `json:"underReplicated"`
	// Draining is how many replicas are still on brokers that are to go.
	// +optional
	Draining int32 `json:"draining,omitempty"`
	// Conditions: Ready, Scaled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LogClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type LogClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LogCluster `json:"items"`
}
