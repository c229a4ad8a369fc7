package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// PlacedPartition returns a Partition resource in the form in which the operator, and a leader that
// proposes an ISR, decide about it. A resource that was written before status.replicas existed has
// its replicas in the spec.
func PlacedPartition(p *v1alpha1.Partition) placement.Partition {
	status := p.Status
	placed := placement.Partition{
		Replicas: slices.Clone(status.Replicas), Target: slices.Clone(p.Spec.Replicas),
		Leader: status.Leader, LeaderEpoch: status.LeaderEpoch,
		LeaderDirectory: status.LeaderDirectory,
		UnprovenEpoch:   status.UnprovenEpoch,
	}
	if len(placed.Replicas) == 0 {
		placed.Replicas = slices.Clone(p.Spec.Replicas)
	}
	if status.FoundEpoch != nil {
		placed.FoundEpoch = new(*status.FoundEpoch)
	}
	for _, a := range status.Assignments {
		if placed.ReplicaIncarnations == nil {
			placed.ReplicaIncarnations = make(map[int32]string, len(status.Assignments))
		}
		placed.ReplicaIncarnations[a.Broker] = a.ID
	}
	for _, replica := range status.ISR {
		member := placement.InSyncReplica{Broker: replica.Broker, Epoch: replica.BrokerEpoch,
			Directory: replica.Directory}
		// Entries without a directory were written by an earlier version: the directory of the
		// leader is known, and that of a sole in-sync replica, since it led.
		if member.Directory == "" && (member.Broker == status.Leader || len(status.ISR) == 1) {
			member.Directory = status.LeaderDirectory
		}
		placed.ISR = append(placed.ISR, member)
	}
	return placed
}

// RecordPlaced writes a decision into a status. The target assignment is in the spec, and stays
// there.
func RecordPlaced(status *v1alpha1.PartitionStatus, placed placement.Partition) {
	status.Replicas, status.Assignments = slices.Clone(placed.Replicas), nil
	for _, broker := range placed.Replicas {
		if id := placed.ReplicaIncarnations[broker]; id != "" {
			status.Assignments = append(status.Assignments,
				v1alpha1.ReplicaAssignment{Broker: broker, ID: id})
		}
	}
	status.Leader, status.LeaderEpoch, status.LeaderDirectory = placed.Leader, placed.LeaderEpoch,
		placed.LeaderDirectory
	status.UnprovenEpoch, status.FoundEpoch = placed.UnprovenEpoch, nil
	if placed.FoundEpoch != nil {
		status.FoundEpoch = new(*placed.FoundEpoch)
	}
	isr := make([]v1alpha1.InSyncReplica, 0, len(placed.ISR))
	for _, member := range placed.ISR {
		isr = append(isr, v1alpha1.InSyncReplica{Broker: member.Broker, BrokerEpoch: member.Epoch,
			Directory: member.Directory})
	}
	RecordISR(status, isr)
}

// Proposal returns the change as placement.ChangeISR takes it.
func (c ISRChange) Proposal() placement.Proposal {
	proposal := placement.Proposal{LeaderEpoch: c.LeaderEpoch, From: c.From,
		ReplicaIncarnations: make(map[int32]string, len(c.To))}
	for _, m := range c.To {
		proposal.To = append(proposal.To, placement.InSyncReplica{Broker: m.Broker, Epoch: m.Epoch})
		proposal.ReplicaIncarnations[m.Broker] = m.ReplicaIncarnation
	}
	return proposal
}

// RecordServing records in a Partition's status that its leader serves a leader epoch. It also sets
// condition Ready, as the operator would: that saves one of the three writes of an election.
func RecordServing(p *v1alpha1.Partition, leaderEpoch int32) {
	p.Status.ServingEpoch = new(leaderEpoch)
	RecordCondition(&p.Status, p.Generation, ServingCondition(p.Status.Leader))
}

// ServingCondition returns condition Ready of a Partition whose leader serves.
func ServingCondition(leader int32) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: fmt.Sprintf("Broker %d leads and serves.", leader),
	}
}

// RecordCondition sets a Partition's condition. The transition time changes only with the
// condition's status, so that an equal decision changes nothing.
func RecordCondition(status *v1alpha1.PartitionStatus, generation int64,
	condition metav1.Condition) {
	condition.ObservedGeneration = generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// RecordISR writes in-sync replicas and their printable form into a status. An empty ISR is nil, as
// the API server returns it.
func RecordISR(status *v1alpha1.PartitionStatus, isr []v1alpha1.InSyncReplica) {
	if len(isr) == 0 {
		isr = nil
	}
	ids := make([]string, len(isr))
	for i, replica := range isr {
		ids[i] = strconv.Itoa(int(replica.Broker))
	}
	status.ISR, status.InSync = isr, strings.Join(ids, ",")
}
