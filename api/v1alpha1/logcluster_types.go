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
// +kubebuilder:printcolumn:name="Bootstrap",type=string,JSONPath=`.status.bootstrap`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LogCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LogClusterSpec   `json:"spec,omitempty"`
	Status LogClusterStatus `json:"status,omitempty"`
}

// LogClusterSpec is what the user wants of a cluster.
type LogClusterSpec struct {
	// Brokers is their number; node ids are 0 to brokers-1.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Brokers int32 `json:"brokers,omitempty"`

	// Image is the brokers' image. Default: the operator's own.
	// +optional
	Image string `json:"image,omitempty"`

	// Storage is each broker's volume.
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// Resources of each broker's container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// Listeners are the ports clients come in by.
	// +optional
	Listeners *Listeners `json:"listeners,omitempty"`

	// RackKey is the node label that tells a broker's rack. Brokers are spread over its values.
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	RackKey string `json:"rackKey,omitempty"`

	// Cleaner is each broker's budget for cleaning.
	// +optional
	Cleaner *Cleaner `json:"cleaner,omitempty"`

	// TopicDefaults are used for what a Topic leaves out.
	// +optional
	TopicDefaults *TopicSettings `json:"topicDefaults,omitempty"`
}

// Storage is a broker's volume.
type Storage struct {
	// Size of the volume. Default 10Gi.
	// +optional
	// +kubebuilder:default="10Gi"
	Size resource.Quantity `json:"size,omitempty"`
	// ClassName is the StorageClass. Default: the cluster's.
	// +optional
	ClassName *string `json:"className,omitempty"`
	// ReclaimPolicy says what becomes of the volumes when the LogCluster is deleted. Default Retain.
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
	Memory *resource.Quantity `json:"memory,omitempty"`
	// IORate bounds reads plus writes, in bytes a second. Default: no limit.
	// +optional
	IORate *resource.Quantity `json:"ioRate,omitempty"`
}

// LogClusterStatus is what Heartwood sees of a cluster. The operator writes it.
type LogClusterStatus struct {
	// ObservedGeneration is the metadata.generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyBrokers is how many brokers are up.
	ReadyBrokers int32 `json:"readyBrokers"`
	// Bootstrap is the address that clients start from, host:port.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
	// Topics and Partitions are how many the cluster holds, UnderReplicated how many partitions lack replicas or a leader.
	Topics int32 `json:"topics"`
	// Partitions is how many partitions the cluster holds.
	Partitions int32 `json:"partitions"`
	// UnderReplicated is how many partitions have fewer in-sync replicas than replicas.
	UnderReplicated int32 `json:"underReplicated"`
	// Conditions: Ready.
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
