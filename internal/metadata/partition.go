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

// PlacedPartition is what a Partition resource says, as decisions about it are made: by the
// operator, and by its leader when that proposes other in-sync replicas. A resource of before
// status.replicas has its replicas where its spec says.
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
		// Entries of before they had a directory: the leader's is known, and of one that was alone
		// in sync, since it led.
		if member.Directory == "" && (member.Broker == status.Leader || len(status.ISR) == 1) {
			member.Directory = status.LeaderDirectory
		}
		placed.ISR = append(placed.ISR, member)
	}
	return placed
}

// RecordPlaced writes a decision into a status. Where the replicas are to be is the spec's, and
// stays there.
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

// Proposal is what a leader proposes, as placement.ChangeISR takes it.
func (c ISRChange) Proposal() placement.Proposal {
	proposal := placement.Proposal{LeaderEpoch: c.LeaderEpoch, From: c.From,
		ReplicaIncarnations: make(map[int32]string, len(c.To))}
	for _, m := range c.To {
		proposal.To = append(proposal.To, placement.InSyncReplica{Broker: m.Broker, Epoch: m.Epoch})
		proposal.ReplicaIncarnations[m.Broker] = m.ReplicaIncarnation
	}
	return proposal
}

// RecordServing writes into a Partition's status that its leader serves a leader epoch. Condition
// Ready comes with it, in the operator's words: that saves each election one of its three writes.
func RecordServing(p *v1alpha1.Partition, leaderEpoch int32) {
	p.Status.ServingEpoch = new(leaderEpoch)
	RecordCondition(&p.Status, p.Generation, ServingCondition(p.Status.Leader))
}

// ServingCondition is condition Ready of a Partition whose leader serves.
func ServingCondition(leader int32) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: fmt.Sprintf("broker %d leads", leader),
	}
}

// RecordCondition sets a Partition's condition, and since when: the time of transition moves only
// if the condition's status changes, so that deciding again changes nothing.
func RecordCondition(status *v1alpha1.PartitionStatus, generation int64,
	condition metav1.Condition) {
	condition.ObservedGeneration = generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// RecordISR writes in-sync replicas into a status, and the line that names them. No replicas are
// nil, as the API server returns them.
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
