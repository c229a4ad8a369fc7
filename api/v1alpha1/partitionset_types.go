package v1alpha1

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PartitionSets is the number of PartitionSets of a new LogCluster (ADR 0250). An existing
// LogCluster keeps its number, which is in spec.count of its sets.
const PartitionSets = 16

// PartitionSet holds the assignments and the state of a share of a LogCluster's partitions. It is
// named <LogCluster>-<index>. The operator creates a LogCluster's sets; users do not have to edit
// them. "heartwood partitions" prints their content.
//
// Every change is a compare-and-swap on resourceVersion. A set outlives its LogCluster and its
// Topics, because it records which brokers store the records.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lps,categories=heartwood
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PartitionSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec assigns partitions to brokers.
	Spec PartitionSetSpec `json:"spec"`
	// Status is the state of the partitions. The operator and the leaders write it.
	// +optional
	Status PartitionSetStatus `json:"status,omitempty"`
}

// PartitionSetSpec assigns partitions to brokers.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.index == oldSelf.index && self.count == oldSelf.count",message="cluster, index and count of a PartitionSet cannot be changed: they decide which partitions belong to the set"
type PartitionSetSpec struct {
	// Cluster is the name of the LogCluster.
	Cluster string `json:"cluster"`
	// Index is this set's number, from 0 to count-1.
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`
	// Count is the LogCluster's number of sets.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Count int32 `json:"count"`
	// Assignments contains an entry for each partition, with the key <Topic>/<partition>. The value is
	// "0,1,2 <topic>": the ids of the brokers to which the partition is assigned, the preferred leader
	// first, and the first 8 characters of the topic id. A third word "delete" means that the Topic's
	// reclaimPolicy is Delete; "retained" means that the Topic was deleted and its records are
	// retained. The operator writes the entries; brokers change them for reassignments that Kafka
	// clients request.
	// +optional
	// +mapType=atomic
	Assignments map[string]string `json:"assignments,omitempty"`
	// Lent contains partitions with one replica that have a lent second replica while the first
	// replica's broker is restarted (LogCluster spec.rollout.singleReplica), with the same key. The
	// value is the id of the broker with the lent replica, which is second in the assignment. Any
	// other value has no effect.
	// +optional
	// +mapType=atomic
	Lent map[string]int32 `json:"lent,omitempty"`
}

// PartitionSetStatus is the state of the partitions.
type PartitionSetStatus struct {
	// Partitions contains an entry for each partition, with the same key as in spec.assignments. An
	// example is the value "1@34 0:7,1:12,2 k3f9x2ab 51". Broker 1 leads in leader epoch 34. The
	// replicas are on brokers 0, 1 and 2; brokers 0 and 1 are in sync, in broker epochs 7 and 12. The
	// replica incarnation id is k3f9x2ab. The entry has been changed 51 times.
	// docs/internals/format/partition-sets.md describes the format.
	// +optional
	// +mapType=atomic
	Partitions map[string]string `json:"partitions,omitempty"`
	// Directories contains the directory id of the broker's disk for each broker epoch in the entries
	// of partitions, with the key <broker>:<broker epoch>.
	// +optional
	// +mapType=atomic
	Directories map[string]string `json:"directories,omitempty"`
}

// PartitionSetList is a list of PartitionSets.
//
// +kubebuilder:object:root=true
type PartitionSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PartitionSet `json:"items"`
}

// PartitionSetName returns the name of a LogCluster's PartitionSet.
func PartitionSetName(cluster string, index int32) string {
	return cluster + "-" + strconv.Itoa(int(index))
}
