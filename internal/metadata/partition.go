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

// PlacedPartition converts a Partition resource to the form that package placement uses, for the
// decisions of the operator and for ISR changes. If the resource was written before the field
// status.replicas existed, its replicas are those in the spec.
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
		// An earlier version wrote ISR entries without a directory. LeaderDirectory is the
		// directory of the leader. It is also the directory of the only in-sync replica of a
		// partition without a leader, because that replica led the partition last.
		if member.Directory == "" && (member.Broker == status.Leader || len(status.ISR) == 1) {
			member.Directory = status.LeaderDirectory
		}
		placed.ISR = append(placed.ISR, member)
	}
	return placed
}

// RecordPlaced writes a decision of package placement into a Partition's status. It does not write
// the target assignment, which is in the spec.
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

// Proposal converts the change to the argument of placement.ChangeISR.
func (c ISRChange) Proposal() placement.Proposal {
	proposal := placement.Proposal{LeaderEpoch: c.LeaderEpoch, From: c.From,
		ReplicaIncarnations: make(map[int32]string, len(c.To))}
	for _, m := range c.To {
		proposal.To = append(proposal.To, placement.InSyncReplica{Broker: m.Broker, Epoch: m.Epoch})
		proposal.ReplicaIncarnations[m.Broker] = m.ReplicaIncarnation
	}
	return proposal
}

// RecordServing writes into a Partition's status that its leader serves in leaderEpoch. It also
// sets condition Ready to the value that the operator would set. This saves one of the three writes
// of an election.
func RecordServing(p *v1alpha1.Partition, leaderEpoch int32) {
	p.Status.ServingEpoch = new(leaderEpoch)
	RecordCondition(&p.Status, p.Generation, ServingCondition(p.Status.Leader))
}

// ServingCondition returns condition Ready of a Partition that its leader serves.
func ServingCondition(leader int32) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: fmt.Sprintf("Broker %d leads and serves.", leader),
	}
}

// RecordCondition sets a condition in a Partition's status. The transition time changes only if the
// status of the condition changes, so that setting an equal condition has no effect.
func RecordCondition(status *v1alpha1.PartitionStatus, generation int64,
	condition metav1.Condition) {
	condition.ObservedGeneration = generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// RecordISR writes the in-sync replicas and their printable form into a Partition's status. It
// replaces an empty slice by nil, which is what the API server returns.
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
