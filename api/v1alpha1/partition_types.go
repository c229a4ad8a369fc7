package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Partition is one partition of a Topic, named <topic resource>-<index>. The operator makes it,
// elects its leader, and takes brokers that are gone out of isr; the leader adds to isr and takes
// from it who lags, and writes servingEpoch and foundEpoch. Every change of the status is a
// compare-and-swap on resourceVersion. Who edits spec.replicas moves the partition: status.replicas
// tells how far it is. It goes with a Topic whose reclaimPolicy is Delete; else it stays and
// remembers where the records are.
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

// PartitionSpec is where a partition lives.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.topic == oldSelf.topic && self.index == oldSelf.index",message="cluster, topic and index of a Partition cannot be changed: the operator makes Partitions, change the Topic instead"
type PartitionSpec struct {
	// Cluster is the LogCluster's name.
	Cluster string `json:"cluster"`
	// Topic is the name of the Topic resource.
	Topic string `json:"topic"`
	// Index is the partition's number, from 0.
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`
	// Replicas are the node ids of the brokers that are to hold the partition, the preferred leader
	// first. When they are changed, the new ones copy it first, and the others go once all of these
	// are in sync.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self.all(id, self.exists_one(other, other == id))",message="a broker holds at most one replica of a partition: name each id once"
	// +listType=atomic
	Replicas []int32 `json:"replicas"`
}

// PartitionStatus is who leads a partition and who is in sync.
//
// +kubebuilder:validation:XValidation:rule="!has(self.servingEpoch) || self.servingEpoch <= self.leaderEpoch",fieldPath=".servingEpoch",message="servingEpoch must not be ahead of leaderEpoch: read the Partition again"
type PartitionStatus struct {
	// Leader is the leader's node id, -1 while there is none.
	// +kubebuilder:default=-1
	Leader int32 `json:"leader"`
	// LeaderEpoch grows with each election.
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="leaderEpoch must not go back: read the Partition again"
	LeaderEpoch int32 `json:"leaderEpoch"`
	// UnprovenEpoch is the latest leader epoch whose leader was elected without proof that it has
	// every acknowledged record; absent if none was. Replicas that come back from before it trust
	// nothing that the leader does not have. The operator writes it.
	// +optional
	UnprovenEpoch int32 `json:"unprovenEpoch,omitempty"`
	// LeaderDirectory is the directory id of the disk that the leader was elected with, also after
	// it went down: who returns with another disk has lost the records. The operator writes it.
	// +optional
	LeaderDirectory string `json:"leaderDirectory,omitempty"`
	// Replicas are the brokers that hold a log of the partition now: while it moves, those that did
	// and those that are to. Absent before the first look at it. The operator writes it.
	// +optional
	// +listType=atomic
	Replicas []int32 `json:"replicas,omitempty"`
	// Assignments names, of each of the replicas, the time that it is one. A broker that is taken
	// off the partition and put on it again has another name, and gives up what it kept of the time
	// before. A replica from before there were names has none. The operator writes it.
	// +optional
	// +listType=map
	// +listMapKey=broker
	Assignments []ReplicaAssignment `json:"assignments,omitempty"`
	// ISR are the in-sync replicas: each of them has every record that was acknowledged by all.
	// +optional
	// +listType=atomic
	ISR []InSyncReplica `json:"isr,omitempty"`
	// InSync names the brokers in isr, as "0,1,2": for people, since a column of kubectl shows the
	// first entry of a list only. Whoever writes isr writes it too; nothing is decided by it.
	// +optional
	InSync string `json:"inSync,omitempty"`
	// ServingEpoch is the leader epoch that the leader says it serves; the partition is ready when
	// it equals leaderEpoch.
	// +optional
	ServingEpoch *int32 `json:"servingEpoch,omitempty"`
	// FoundEpoch is the latest leader epoch that the leader found on its disk, when that is above
	// leaderEpoch, as after the Partition was deleted and made again. The leader writes it; the
	// operator elects anew above it.
	// +optional
	FoundEpoch *int32 `json:"foundEpoch,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaAssignment is the time that a broker is a replica, from when it is put on a partition to
// when it is taken off.
type ReplicaAssignment struct {
	// Broker is the node id.
	Broker int32 `json:"broker"`
	// ID is the time's name, which no other has.
	ID string `json:"id"`
}

// InSyncReplica is a broker in one incarnation.
type InSyncReplica struct {
	// Broker is the node id.
	Broker int32 `json:"broker"`
	// BrokerEpoch is the incarnation: the broker's Lease.spec.leaseTransitions when it joined.
	BrokerEpoch int64 `json:"brokerEpoch"`
	// Directory is the directory id of the broker's disk when it joined; absent when it is not
	// known.
	// +optional
	Directory string `json:"directory,omitempty"`
}

// PartitionList is a list of partitions.
//
// +kubebuilder:object:root=true
type PartitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Partition `json:"items"`
}
