package v1alpha1

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PartitionSets is the number of PartitionSets of a new LogCluster (ADR 0250). An existing
// LogCluster keeps the number in spec.count of its sets.
const PartitionSets = 16

// PartitionSet holds the assignments and the state of a share of a LogCluster's partitions. It is
// named <LogCluster>-<index>. The operator creates the sets of a LogCluster; users need not edit
// them. "heartwood partitions" prints their content.
//
// Every change is a compare-and-swap on resourceVersion. A set outlives its LogCluster and its
// Topics, because it states which brokers store the records.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lps
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PartitionSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PartitionSetSpec `json:"spec"`
	// +optional
	Status PartitionSetStatus `json:"status,omitempty"`
}

// PartitionSetSpec assigns partitions to brokers.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.index == oldSelf.index && self.count == oldSelf.count",message="cluster, index and count of a PartitionSet cannot be changed: they decide which partitions belong to the set"
type PartitionSetSpec struct {
	// Cluster is the name of the LogCluster.
	Cluster string `json:"cluster"`
	// Index is the number of this set, from 0 to count-1.
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`
	// Count is the number of sets of the LogCluster.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Count int32 `json:"count"`
	// Assignments contains an entry for each partition, with the key <Topic>/<partition>. The value
	// is "0,1,2 <topic>": the ids of the brokers that are to hold the partition, the preferred
	// leader first, and the first 8 characters of the topic id. A third word "delete" means that
	// the Topic's reclaimPolicy is Delete; "retained" means that the Topic was deleted and its
	// records are retained. The operator writes the entries; brokers change them for reassignments
	// that Kafka clients request.
	// +optional
	// +mapType=atomic
	Assignments map[string]string `json:"assignments,omitempty"`
	// Lent contains partitions with one replica to which the operator lends a second one while the
	// broker of the other is restarted (LogCluster spec.rollout.singleReplica), with the same key.
	// The value is the id of the broker with the lent replica, the second one in the assignment. A
	// value that is not has no meaning.
	// +optional
	// +mapType=atomic
	Lent map[string]int32 `json:"lent,omitempty"`
}

// PartitionSetStatus is the state of the partitions.
type PartitionSetStatus struct {
	// Partitions contains an entry for each partition, with the same key as in spec.assignments.
	// In the value "1@34 0:7,1:12,2 k3f9x2ab 51", broker 1 leads in leader epoch 34; the replicas
	// are on brokers 0, 1 and 2, of which 0 and 1 are in sync, in the broker epochs 7 and 12; the
	// replica incarnation id is k3f9x2ab; and the entry has been changed 51 times. The format is
	// docs/format/partition-sets.md.
	// +optional
	// +mapType=atomic
	Partitions map[string]string `json:"partitions,omitempty"`
	// Directories contains the directory id of the broker's disk for each broker epoch that an
	// entry of partitions names, with the key <broker>:<broker epoch>.
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
