package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Partition is one partition of a Topic, named <Topic resource>-<index>. The operator creates it,
// elects its leader and removes failed brokers from isr. The leader adds followers to isr, removes
// those that lag, and writes servingEpoch and foundEpoch. Every change of the status is a
// compare-and-swap on resourceVersion.
//
// Editing spec.replicas reassigns the partition; status.replicas shows the progress. A Partition is
// deleted with a Topic whose reclaimPolicy is Delete. Otherwise the Partition is kept, because it
// states which brokers store the records.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lp
// +kubebuilder:printcolumn:name="Topic",type=string,JSONPath=`.spec.topic`
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Leader",type=integer,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=`.status.leaderEpoch`
// +kubebuilder:printcolumn:name="ISR",type=string,JSONPath=`.status.inSync`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Target",type=string,priority=1,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Partition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PartitionSpec `json:"spec"`
	// +default={"leader":-1,"leaderEpoch":0}
	Status PartitionStatus `json:"status,omitempty"`
}

// PartitionSpec is the assignment of a partition.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.topic == oldSelf.topic && self.index == oldSelf.index",message="cluster, topic and index of a Partition cannot be changed: the operator makes Partitions, change the Topic instead"
type PartitionSpec struct {
	// Cluster is the name of the LogCluster.
	Cluster string `json:"cluster"`
	// Topic is the name of the Topic resource.
	Topic string `json:"topic"`
	// Index is the number of the partition, from 0.
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`
	// Replicas are the ids of the brokers that are to hold the partition, the preferred leader
	// first. After a change, the added replicas copy the log. When all replicas of the new
	// assignment are in sync, the other replicas are removed.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self.all(id, self.exists_one(other, other == id))",message="a broker holds at most one replica of a partition: name each id once"
	// +listType=atomic
	Replicas []int32 `json:"replicas"`
}

// PartitionStatus is the leader and the ISR of a partition.
//
// +kubebuilder:validation:XValidation:rule="!has(self.servingEpoch) || self.servingEpoch <= self.leaderEpoch",fieldPath=".servingEpoch",message="servingEpoch must not be ahead of leaderEpoch: read the Partition again"
type PartitionStatus struct {
	// Leader is the broker id of the leader, -1 if there is none.
	// +kubebuilder:default=-1
	Leader int32 `json:"leader"`
	// LeaderEpoch is the leader epoch, a number that grows with each election.
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="leaderEpoch must not go back: read the Partition again"
	LeaderEpoch int32 `json:"leaderEpoch"`
	// UnprovenEpoch is the latest leader epoch that began with an unclean election. It is absent if
	// there was no unclean election. A replica that returns from an earlier leader epoch truncates
	// all records that the leader does not have. The operator writes it.
	// +optional
	UnprovenEpoch int32 `json:"unprovenEpoch,omitempty"`
	// LeaderDirectory is the directory id of the latest leader's disk. It is kept when the leader
	// goes down. A broker that returns with another disk has lost the records. The operator writes
	// it.
	// +optional
	LeaderDirectory string `json:"leaderDirectory,omitempty"`
	// Replicas are the ids of the brokers that hold a log of the partition: during a reassignment,
	// those of the previous and of the new assignment. It is absent before the first election. The
	// operator writes it.
	// +optional
	// +listType=atomic
	Replicas []int32 `json:"replicas,omitempty"`
	// Assignments are the incarnation ids of the replicas. A broker that is removed from the
	// replicas and added again gets another id and discards the log of the earlier one. A replica
	// that was added by a version without incarnation ids has no entry. The operator writes it.
	// +optional
	// +listType=map
	// +listMapKey=broker
	Assignments []ReplicaAssignment `json:"assignments,omitempty"`
	// ISR are the in-sync replicas. Each of them has every record that was acknowledged with
	// acks=all.
	// +optional
	// +listType=atomic
	ISR []InSyncReplica `json:"isr,omitempty"`
	// InSync is isr in printable form, such as "0,1,2", for a column of kubectl get. It is written
	// together with isr, and nothing reads it.
	// +optional
	InSync string `json:"inSync,omitempty"`
	// ServingEpoch is the leader epoch that the leader reports as served. The partition is Ready if
	// it equals leaderEpoch.
	// +optional
	ServingEpoch *int32 `json:"servingEpoch,omitempty"`
	// FoundEpoch is the latest leader epoch in the leader's log, if it is above leaderEpoch. This
	// happens after the Partition was deleted and created again. The leader writes it; the operator
	// then starts a leader epoch above it.
	// +optional
	FoundEpoch *int32 `json:"foundEpoch,omitempty"`
	// Conditions contains condition Ready only.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaAssignment is the incarnation id of a replica. It identifies one period in which a broker
// is a replica of the partition.
type ReplicaAssignment struct {
	// Broker is the broker id.
	Broker int32 `json:"broker"`
	// ID is the unique incarnation id.
	ID string `json:"id"`
}

// InSyncReplica is a member of the ISR.
type InSyncReplica struct {
	// Broker is the broker id.
	Broker int32 `json:"broker"`
	// BrokerEpoch is the broker epoch in which the replica joined the ISR: the
	// spec.leaseTransitions of the broker's Lease at that time.
	BrokerEpoch int64 `json:"brokerEpoch"`
	// Directory is the directory id of the broker's disk when the replica joined the ISR. It is
	// absent if unknown.
	// +optional
	Directory string `json:"directory,omitempty"`
}

// PartitionList is a list of Partitions.
//
// +kubebuilder:object:root=true
type PartitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Partition `json:"items"`
}
