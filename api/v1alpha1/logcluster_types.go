package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogCluster is a cluster of brokers and the topics that they store.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lc,categories=heartwood
// +kubebuilder:printcolumn:name="Brokers",type=integer,JSONPath=`.spec.brokers`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyBrokers`
// +kubebuilder:printcolumn:name="Topics",type=integer,JSONPath=`.status.topics`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.status.partitions`
// +kubebuilder:printcolumn:name="Under-Replicated",type=integer,JSONPath=`.status.underReplicatedPartitions`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="RollingOut")].reason`
// +kubebuilder:printcolumn:name="Rebalance",type=string,JSONPath=`.status.rebalance.phase`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Volume-Size",type=string,priority=1,JSONPath=`.spec.storage.size`
// +kubebuilder:printcolumn:name="Volumes",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="StorageResized")].reason`
// +kubebuilder:printcolumn:name="Retained",type=integer,priority=1,JSONPath=`.status.retainedPartitions`
// +kubebuilder:printcolumn:name="Pressure",type=string,JSONPath=`.status.conditions[?(@.type=="StoragePressure")].reason`
// +kubebuilder:printcolumn:name="Bootstrap",type=string,JSONPath=`.status.bootstrap`
// +kubebuilder:printcolumn:name="External",type=string,JSONPath=`.status.listeners[?(@.type!="Internal")].bootstrap`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name must begin with a letter, hold only lower-case letters, digits and dashes, and have at most 40 characters: Services and Pods are named after it"
type LogCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state. An empty spec gives three brokers with the default settings.
	// +optional
	// +kubebuilder:default={}
	Spec LogClusterSpec `json:"spec,omitempty"`
	// Status is the observed state. The operator writes it. Its observedGeneration is -1 until the
	// operator has observed the resource.
	// +kubebuilder:default={"observedGeneration":-1,"partitions":0,"readyBrokers":0,"topics":0,"underReplicatedPartitions":0}
	Status LogClusterStatus `json:"status,omitempty"`
}

// LogClusterSpec is the desired state of a LogCluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topicDefaults) || !has(self.topicDefaults.replicas) || self.topicDefaults.replicas <= self.brokers",fieldPath=".topicDefaults.replicas",message="topicDefaults.replicas must not be more than brokers: lower it, or raise brokers"
// +kubebuilder:validation:XValidation:rule="!has(self.drain) || (self.drain.all(id, id < self.brokers) && size(self.drain) < self.brokers)",fieldPath=".drain",message="drain must contain ids below brokers, and not those of all brokers: to remove brokers for good, lower brokers, which removes the highest ids"
// +kubebuilder:validation:XValidation:rule="!has(self.cordoned) || self.cordoned.all(id, id < self.brokers)",fieldPath=".cordoned",message="cordoned must contain ids below brokers"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || !has(self.groups.offsetsTopic) || !has(self.groups.offsetsTopic.replicas) || self.groups.offsetsTopic.replicas <= self.brokers",fieldPath=".groups.offsetsTopic.replicas",message="groups.offsetsTopic.replicas must not be more than brokers: lower it, or raise brokers"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !isQuantity(string(self.resources.limits['memory'])) || quantity(has(self.cleaner) && has(self.cleaner.memory) && isQuantity(string(self.cleaner.memory)) ? string(self.cleaner.memory) : '128Mi').compareTo(quantity(string(self.resources.limits['memory']))) < 0",fieldPath=".cleaner.memory",message="cleaner.memory, by default 128Mi, must be less than resources.limits.memory: lower it, or raise the limit"
type LogClusterSpec struct {
	// Brokers is the number of brokers. Their ids are 0 to brokers-1. When the number is lowered, the
	// brokers with the highest ids are removed after their replicas have moved to other brokers.
	// Condition Scaled reports the progress.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Brokers int32 `json:"brokers,omitempty"`

	// Image is the container image of the brokers. Default: the operator's image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')",message="write the name of an image, such as registry.example.com/heartwood:1.0"
	Image string `json:"image,omitempty"`

	// Storage is the volume of each broker.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitzero"`

	// Resources are the compute resources of each broker's container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Listeners are the ports that clients connect to. Default: one listener named kafka at port
	// 9092, without TLS and authentication.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:default={{name: "kafka", port: 9092}}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.port == a.port))",message="two listeners have the same port: choose another port for one of them"
	Listeners Listeners `json:"listeners,omitempty"`

	// Authorization decides which principals are allowed to do what. Default: type None while no
	// listener has authentication, otherwise type Simple.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`

	// HTTP configures the HTTP port (9644) of each broker.
	// +optional
	HTTP *HTTP `json:"http,omitempty"`

	// Metrics configures which metrics the brokers export.
	// +optional
	Metrics *Metrics `json:"metrics,omitempty"`

	// Logging configures the brokers' log.
	// +optional
	Logging *Logging `json:"logging,omitempty"`

	// Peers is the way in which brokers connect to each other: Plain, or MutualTLS at port 9091 with
	// certificates of the cluster's own peer CA. A change restarts the brokers one after the other,
	// without unavailability. Default: MutualTLS if a listener has tls or authentication, or with
	// authorization Simple, otherwise Plain.
	// +optional
	Peers Peers `json:"peers,omitempty"`

	// RackKey is the node label whose value is a broker's rack. Brokers and replicas are spread
	// across racks. Default topology.kubernetes.io/zone.
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="rackKey must be the key of a node label, such as topology.kubernetes.io/zone"
	RackKey string `json:"rackKey,omitempty"`

	// RackSpread is Preferred or Required: whether brokers must be spread across the values of
	// rackKey. With Required, a broker's pod stays pending if it would make the numbers of brokers in
	// the racks differ by more than one. Default Preferred.
	// +optional
	RackSpread RackSpread `json:"rackSpread,omitempty"`

	// Pod configures the brokers' pods.
	// +optional
	Pod *Pod `json:"pod,omitempty"`

	// Cleaner is the budget of each broker's cleaner.
	// +optional
	Cleaner *Cleaner `json:"cleaner,omitempty"`

	// Scrub configures how brokers check the files that they keep at rest.
	// +optional
	Scrub *Scrub `json:"scrub,omitempty"`

	// Replication configures replication between brokers.
	// +optional
	Replication *Replication `json:"replication,omitempty"`

	// Rollout configures when brokers are restarted after a change of their pod template.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// FormatLevel is the highest format level that brokers can use (status.formatLevel). The level is
	// raised when all brokers support it, and never lowered; a value below status.formatLevel has no
	// effect. Default: the highest level that all brokers support. It is used 24 hours after the last
	// broker supports it, so an update of the brokers can be reverted until then.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FormatLevel *int32 `json:"formatLevel,omitempty"`

	// Rebalance configures how the operator moves replicas between brokers.
	// +optional
	Rebalance *Rebalance `json:"rebalance,omitempty"`

	// Cordoned contains the ids of brokers to which the operator assigns no more replicas, neither of
	// new partitions nor by moves. Replicas on these brokers stay (KIP-1066). If a Topic needs more
	// replicas than there are other brokers, it gets replicas on cordoned brokers, too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Minimum=0
	Cordoned []int32 `json:"cordoned,omitempty"`

	// Drain contains the ids of brokers from which the operator moves all replicas. These brokers are
	// also cordoned. They keep running and keep their volumes. To fill a broker again, remove its id
	// from the list and rebalance. If replicas cannot leave because of disks, racks or their number,
	// no replica is moved, and condition Drained gives the reason.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Minimum=0
	Drain []int32 `json:"drain,omitempty"`

	// Groups configures consumer groups.
	// +optional
	Groups *Groups `json:"groups,omitempty"`

	// Transactions configures transactional producers (exactly-once semantics).
	// +optional
	Transactions *Transactions `json:"transactions,omitempty"`

	// TopicDefaults contains the default values of settings that a Topic does not specify.
	// +optional
	TopicDefaults *TopicDefaults `json:"topicDefaults,omitempty"`

	// AutoCreateTopics enables the automatic creation of topics. When a client requests the metadata
	// of a topic that does not exist and allows its creation, a Topic with the topicDefaults is
	// created. Default false: a mistyped name is an error.
	// +optional
	AutoCreateTopics *bool `json:"autoCreateTopics,omitempty"`

	// AdminAPI is ReadWrite or ReadOnly. With ReadWrite, Kafka's admin requests change Topic
	// resources. With ReadOnly, admin requests that change anything are rejected with
	// POLICY_VIOLATION. Default ReadWrite.
	// +optional
	AdminAPI AdminAPI `json:"adminAPI,omitempty"`

	// Pprof serves CPU, heap and other profiles under /debug/pprof on each broker's HTTP port, which
	// has no authentication. A change restarts the brokers, one after the other. Default false.
	// +optional
	Pprof bool `json:"pprof,omitempty"`
}

// TopicDefaults contains the defaults of a cluster's Topics.
type TopicDefaults struct {
	// Partitions is the number of partitions of a new topic if the Topic or the CreateTopics request
	// does not specify it (num.partitions). It does not apply to internal topics. The number is set
	// when a topic is created, so a change of this default affects only later topics. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Partitions *int32 `json:"partitions,omitempty"`

	TopicSettings `json:",inline"`
}

// AdminAPI specifies what Kafka's admin requests can do.
// +kubebuilder:validation:Enum=ReadWrite;ReadOnly
type AdminAPI string

const (
	// AdminReadWrite allows Kafka's admin requests to change Topic resources.
	AdminReadWrite AdminAPI = "ReadWrite"
	// AdminReadOnly rejects admin requests that change anything.
	AdminReadOnly AdminAPI = "ReadOnly"
)

// Resources are compute resources, as in a container spec.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",fieldPath=".requests",message="requests must not be more than limits: lower the request, or raise the limit of the same resource"
type Resources struct {
	// Requests are the resources that the scheduler reserves.
	// +optional
	// +kubebuilder:validation:MaxProperties=6
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
	// Limits are the maximum resources that the container can use.
	// +optional
	// +kubebuilder:validation:MaxProperties=6
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
}

// Cleaner is the budget of a broker's cleaner.
type Cleaner struct {
	// Workers is the number of worker slots: the number of partitions or hash slices that are cleaned
	// at the same time. 0 disables the cleaner. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Workers *int32 `json:"workers,omitempty"`
	// Memory is the memory that all workers together can use, at least 1Mi. Default 128Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="write a size of at least 1Mi, such as 128Mi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// IORate limits the cleaner's reads plus writes, in bytes per second, at least 1Ki. Default: no
	// limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"
	IORate *resource.Quantity `json:"ioRate,omitempty"`
}

// Replication configures replication between brokers. Changes take effect immediately.
type Replication struct {
	// MaxLag is the time for which a follower can be behind its leader before the leader removes it
	// from the ISR (replica.lag.time.max.ms), 1s to 1h. Default 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="write a duration of 1s to 1h, such as 10s"
	MaxLag *metav1.Duration `json:"maxLag,omitempty"`
	// CatchUpRate limits the rate at which each broker sends records to replicas that are not in sync
	// (new replicas, and replicas on restarted brokers), in bytes per second, at least 1Ki. In-sync
	// replicas are never throttled, because producers wait for them. Default: no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"
	CatchUpRate *resource.Quantity `json:"catchUpRate,omitempty"`
}

// Groups configures consumer groups. Changes take effect immediately, except for offsetsTopic.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minSessionTimeout) || !has(self.maxSessionTimeout) || !self.minSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.minSessionTimeout.size() == 0 || !self.maxSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.maxSessionTimeout.size() == 0 || duration(self.minSessionTimeout) <= duration(self.maxSessionTimeout)",fieldPath=".minSessionTimeout",message="minSessionTimeout must not be longer than maxSessionTimeout: lower it, or raise maxSessionTimeout"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerHeartbeatInterval) || !self.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerHeartbeatInterval.size() == 0 || has(self.consumerSessionTimeout) && (!self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0) || duration(self.consumerHeartbeatInterval) < duration(has(self.consumerSessionTimeout) ? self.consumerSessionTimeout : '45s')",fieldPath=".consumerHeartbeatInterval",message="consumerHeartbeatInterval must be shorter than consumerSessionTimeout: lower it, or raise consumerSessionTimeout"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerSessionTimeout) || has(self.consumerHeartbeatInterval) || !self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0 || duration(self.consumerSessionTimeout) > duration('5s')",fieldPath=".consumerSessionTimeout",message="consumerSessionTimeout must be longer than consumerHeartbeatInterval, which is 5s: raise it, or set consumerHeartbeatInterval"
// +kubebuilder:validation:XValidation:rule="!has(self.minConsumerSessionTimeout) || has(self.minConsumerSessionTimeout) && (!self.minConsumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.minConsumerSessionTimeout.size() == 0) || has(self.consumerSessionTimeout) && (!self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0) || duration(self.minConsumerSessionTimeout) <= duration(has(self.consumerSessionTimeout) ? self.consumerSessionTimeout : '45s')",fieldPath=".minConsumerSessionTimeout",message="minConsumerSessionTimeout must not be longer than consumerSessionTimeout, by default 45s: lower it, or raise consumerSessionTimeout"
// +kubebuilder:validation:XValidation:rule="!has(self.maxConsumerSessionTimeout) || has(self.maxConsumerSessionTimeout) && (!self.maxConsumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.maxConsumerSessionTimeout.size() == 0) || has(self.consumerSessionTimeout) && (!self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0) || duration(self.maxConsumerSessionTimeout) >= duration(has(self.consumerSessionTimeout) ? self.consumerSessionTimeout : '45s')",fieldPath=".maxConsumerSessionTimeout",message="maxConsumerSessionTimeout must not be shorter than consumerSessionTimeout, by default 45s: raise it, or lower consumerSessionTimeout"
// +kubebuilder:validation:XValidation:rule="!has(self.minConsumerHeartbeatInterval) || has(self.minConsumerHeartbeatInterval) && (!self.minConsumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.minConsumerHeartbeatInterval.size() == 0) || has(self.consumerHeartbeatInterval) && (!self.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerHeartbeatInterval.size() == 0) || duration(self.minConsumerHeartbeatInterval) <= duration(has(self.consumerHeartbeatInterval) ? self.consumerHeartbeatInterval : '5s')",fieldPath=".minConsumerHeartbeatInterval",message="minConsumerHeartbeatInterval must not be longer than consumerHeartbeatInterval, by default 5s: lower it, or raise consumerHeartbeatInterval"
// +kubebuilder:validation:XValidation:rule="!has(self.maxConsumerHeartbeatInterval) || has(self.maxConsumerHeartbeatInterval) && (!self.maxConsumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.maxConsumerHeartbeatInterval.size() == 0) || has(self.consumerHeartbeatInterval) && (!self.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerHeartbeatInterval.size() == 0) || duration(self.maxConsumerHeartbeatInterval) >= duration(has(self.consumerHeartbeatInterval) ? self.consumerHeartbeatInterval : '5s')",fieldPath=".maxConsumerHeartbeatInterval",message="maxConsumerHeartbeatInterval must not be shorter than consumerHeartbeatInterval, by default 5s: raise it, or lower consumerHeartbeatInterval"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || has(self.consumerHeartbeatInterval) && (!self.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerHeartbeatInterval.size() == 0) || has(self.consumerSessionTimeout) && (!self.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || self.consumerSessionTimeout.size() == 0) || self.overrides.all(o, has(o.consumerHeartbeatInterval) && (!o.consumerHeartbeatInterval.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || o.consumerHeartbeatInterval.size() == 0) || has(o.consumerSessionTimeout) && (!o.consumerSessionTimeout.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') || o.consumerSessionTimeout.size() == 0) || duration(has(o.consumerHeartbeatInterval) ? o.consumerHeartbeatInterval : has(self.consumerHeartbeatInterval) ? self.consumerHeartbeatInterval : '5s') < duration(has(o.consumerSessionTimeout) ? o.consumerSessionTimeout : has(self.consumerSessionTimeout) ? self.consumerSessionTimeout : '45s'))",fieldPath=".overrides",message="consumerHeartbeatInterval must be shorter than consumerSessionTimeout in every group: an override that sets only one of them uses the other one of groups"
type Groups struct {
	// MinSessionTimeout is the minimum session.timeout.ms of a member
	// (group.min.session.timeout.ms), 1ms to 30m. Default 6s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1ms') && duration(self) <= duration('30m')",message="write a duration of 1ms to 30m, such as 6s"
	MinSessionTimeout *metav1.Duration `json:"minSessionTimeout,omitempty"`
	// MaxSessionTimeout is the maximum session.timeout.ms of a member (group.max.session.timeout.ms),
	// 6s to 24h. A group waits for a failed member until this member's session timeout has passed.
	// Default 30m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('6s') && duration(self) <= duration('24h')",message="write a duration of 6s to 24h, such as 30m"
	MaxSessionTimeout *metav1.Duration `json:"maxSessionTimeout,omitempty"`
	// InitialRebalanceDelay is the time for which the first rebalance of an empty group waits for
	// further members (group.initial.rebalance.delay.ms), 0s to 5m. So members that start together
	// cause only one rebalance. Default 3s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('0s') && duration(self) <= duration('5m')",message="write a duration of 0s to 5m, such as 3s"
	InitialRebalanceDelay *metav1.Duration `json:"initialRebalanceDelay,omitempty"`
	// MaxMembers is the maximum number of members of a group (group.max.size). Default: no limit,
	// except that a group's state must fit into a record of 1 MB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxMembers *int32 `json:"maxMembers,omitempty"`
	// OffsetsRetention is the time for which committed offsets are kept after their group has no
	// members, or no member that is subscribed to their topic (offsets.retention.minutes), 1m to
	// 999999h. Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1m') && duration(self) <= duration('999999h')",message="write a duration of 1m to 999999h, such as 168h"
	OffsetsRetention *metav1.Duration `json:"offsetsRetention,omitempty"`
	// OffsetsCheckInterval is the interval at which expired offsets are removed
	// (offsets.retention.check.interval.ms), 1s to 24h. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 10m"
	OffsetsCheckInterval *metav1.Duration `json:"offsetsCheckInterval,omitempty"`
	// MaxOffsetMetadata is the maximum size of a committed offset's metadata
	// (offset.metadata.max.bytes), 0 to 30Ki. Default 4Ki.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('30Ki')) <= 0",message="write a size of 0 to 30Ki, such as 4Ki"
	MaxOffsetMetadata *resource.Quantity `json:"maxOffsetMetadata,omitempty"`
	// ConsumerSessionTimeout is the time without a heartbeat after which a member of the consumer
	// protocol is removed (group.consumer.session.timeout.ms), 1s to 24h. Default 45s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 45s"
	ConsumerSessionTimeout *metav1.Duration `json:"consumerSessionTimeout,omitempty"`
	// ConsumerHeartbeatInterval is the heartbeat interval of members of the consumer protocol
	// (group.consumer.heartbeat.interval.ms), 100ms to 1h. Members receive changes of their
	// assignment in the response to a heartbeat. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="write a duration of 100ms to 1h, such as 5s"
	ConsumerHeartbeatInterval *metav1.Duration `json:"consumerHeartbeatInterval,omitempty"`
	// ConsumerAssignmentInterval is the minimum time between two assignments of a group of the
	// consumer protocol (group.consumer.assignment.interval.ms), 0s to 15s. So members that start
	// together cause only one assignment. The first heartbeat of a member after the interval computes
	// the assignment. Default 1s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('0s') && duration(self) <= duration('15s')",message="write a duration of 0s to 15s, such as 1s"
	ConsumerAssignmentInterval *metav1.Duration `json:"consumerAssignmentInterval,omitempty"`
	// MinConsumerSessionTimeout is the minimum consumer.session.timeout.ms that Kafka's admin requests
	// can set for a group (group.consumer.min.session.timeout.ms), 1s to 24h. Default 45s, or
	// consumerSessionTimeout if that is shorter.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 45s"
	MinConsumerSessionTimeout *metav1.Duration `json:"minConsumerSessionTimeout,omitempty"`
	// MaxConsumerSessionTimeout is the maximum consumer.session.timeout.ms that Kafka's admin requests
	// can set for a group (group.consumer.max.session.timeout.ms), 1s to 24h. Default 1m, or
	// consumerSessionTimeout if that is longer.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 1m"
	MaxConsumerSessionTimeout *metav1.Duration `json:"maxConsumerSessionTimeout,omitempty"`
	// MinConsumerHeartbeatInterval is the minimum consumer.heartbeat.interval.ms that Kafka's admin
	// requests can set for a group (group.consumer.min.heartbeat.interval.ms), 100ms to 1h. Default
	// 5s, or consumerHeartbeatInterval if that is shorter.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="write a duration of 100ms to 1h, such as 5s"
	MinConsumerHeartbeatInterval *metav1.Duration `json:"minConsumerHeartbeatInterval,omitempty"`
	// MaxConsumerHeartbeatInterval is the maximum consumer.heartbeat.interval.ms that Kafka's admin
	// requests can set for a group (group.consumer.max.heartbeat.interval.ms), 100ms to 1h. Default
	// 15s, or consumerHeartbeatInterval if that is longer.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="write a duration of 100ms to 1h, such as 15s"
	MaxConsumerHeartbeatInterval *metav1.Duration `json:"maxConsumerHeartbeatInterval,omitempty"`
	// Overrides contains settings of individual groups. Kafka's admin requests for a group's configs
	// change this list (kafka-configs --entity-type groups). A group does not have to exist.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +kubebuilder:validation:MaxItems=1000
	Overrides []GroupOverride `json:"overrides,omitempty"`
	// OffsetsTopic configures the creation of __consumer_offsets, which happens when the first client
	// uses a group. It has no effect on an existing topic. The Topic resource contains all other
	// settings of this topic.
	// +optional
	OffsetsTopic *OffsetsTopic `json:"offsetsTopic,omitempty"`
}

// GroupOverride contains the settings of one group. For a field that is not set, the value in
// groups applies. Changes take effect at each member's next heartbeat.
type GroupOverride struct {
	// Group is the group's id.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Group string `json:"group"`
	// ConsumerSessionTimeout is the time without a heartbeat after which a member of the consumer
	// protocol is removed (consumer.session.timeout.ms), 1s to 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration of 1s to 24h, such as 45s"
	ConsumerSessionTimeout *metav1.Duration `json:"consumerSessionTimeout,omitempty"`
	// ConsumerHeartbeatInterval is the heartbeat interval of members of the consumer protocol
	// (consumer.heartbeat.interval.ms), 100ms to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="write a duration of 100ms to 1h, such as 5s"
	ConsumerHeartbeatInterval *metav1.Duration `json:"consumerHeartbeatInterval,omitempty"`
	// ConsumerAssignmentInterval is the minimum time between two assignments of the group in the
	// consumer protocol (consumer.assignment.interval.ms), 0s to 15s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('0s') && duration(self) <= duration('15s')",message="write a duration of 0s to 15s, such as 1s"
	ConsumerAssignmentInterval *metav1.Duration `json:"consumerAssignmentInterval,omitempty"`
}

// OffsetsTopic configures the topic that stores groups and their committed offsets.
type OffsetsTopic struct {
	// Partitions is the number of partitions (offsets.topic.num.partitions). It can never change,
	// because the hash of a group's name selects the partition. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Partitions *int32 `json:"partitions,omitempty"`
	// Replicas is the number of replicas of each partition (offsets.topic.replication.factor).
	// Default 3, or the number of brokers if that is less.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`
}

// LogClusterList is a list of LogClusters.
//
// +kubebuilder:object:root=true
type LogClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LogCluster `json:"items"`
}
