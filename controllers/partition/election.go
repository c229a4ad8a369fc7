package partition

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// electorate is the complete input of a partition's election. It is not changed after it was read,
// so elect is a pure function. If elect is applied to its own result, it changes nothing.
type electorate struct {
	// partition is an object of the cache; elect changes only a copy of its status.
	partition *v1alpha1.Partition
	// brokers contains the state of every broker that the partition names. A missing broker is
	// treated as down.
	brokers map[int32]placement.BrokerState
	// topicPartitions is the number of partitions of the Topic, 0 if the Topic does not exist in
	// the partition's cluster.
	topicPartitions int32
	// replicaIncarnation is a new unique id, for replicas that this election adds.
	replicaIncarnation string
	allowUnclean       bool // the Topic's setting uncleanLeaderElection
	preferLeader       bool // move leadership back to the preferred leader now
}

// elected is the result of an election.
type elected struct {
	status v1alpha1.PartitionStatus
	// unclean is true if this election elected a leader that may lack acknowledged records; see
	// placement.Decision.
	unclean bool
}

// elect returns the new status of the partition. It decides replicas, leader, leaderEpoch,
// leaderDirectory and condition Ready. It may also remove brokers from isr, and update the broker
// epochs of the remaining ones. placement.Decide makes the decision and documents its guarantees.
//
// Two operators that decide at the same time do no harm: the status is written by compare-and-swap,
// so one of the writes fails. elect does not change servingEpoch. After an election servingEpoch is
// less than leaderEpoch, which shows that the new leader does not serve yet.
func (e electorate) elect() elected {
	status := *e.partition.Status.DeepCopy()
	placed := metadata.PlacedPartition(e.partition)
	if e.partition.Spec.Index >= e.topicPartitions {
		e.retire(&status, placed)
		return elected{status: status}
	}
	decision := placement.Decide(placed, e.brokers, placement.Options{
		ReplicaIncarnation: e.replicaIncarnation,
		AllowUnclean:       e.allowUnclean,
		PreferLeader:       e.preferLeader || e.preferredRequested(),
		AcceptedDataLoss:   e.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss],
	})
	metadata.RecordPlaced(&status, decision.Partition)
	metadata.RecordCondition(&status, e.partition.Generation, e.readyCondition(status, decision))
	return elected{status, decision.Unclean}
}

// retire removes the leader of a partition whose Topic was deleted or has fewer partitions than
// before. The rest of the status is kept for a later Topic: isr and leaderDirectory identify the
// replicas that have the records, and no record has a later leader epoch than leaderEpoch.
func (e electorate) retire(status *v1alpha1.PartitionStatus, placed placement.Partition) {
	retired := placement.Retire(placed)
	status.Leader, status.LeaderEpoch = retired.Leader, retired.LeaderEpoch
	metadata.RecordCondition(status, e.partition.Generation, conditions.NotReady(
		v1alpha1.ReasonRetained,
		"The Topic was deleted or no longer has this partition. The partition's records are kept on the "+
			"brokers in status.replicas. If a Topic of the same name has this partition again, it "+
			"continues with these records.",
	))
}

// preferredRequested reports whether a client has requested the preferred leader (Kafka's
// ElectLeaders) in the current leader epoch.
func (e electorate) preferredRequested() bool {
	requested := e.partition.Annotations[v1alpha1.AnnotationElectPreferred]
	return requested == strconv.Itoa(int(e.partition.Status.LeaderEpoch))
}

// preferredEligible reports whether leadership could move to the preferred leader: another broker
// leads and serves, and the preferred leader is up, not leaving, and in sync in its current broker
// epoch.
func (e electorate) preferredEligible() bool {
	status, preferred := e.partition.Status, e.partition.Spec.Replicas[0]
	if status.Leader == placement.NoLeader || status.Leader == preferred ||
		e.partition.Spec.Index >= e.topicPartitions || !serves(status) {
		return false
	}
	broker := e.brokers[preferred]
	return broker.Liveness == placement.Up && !broker.Leaving &&
		slices.ContainsFunc(status.ISR, func(r v1alpha1.InSyncReplica) bool {
			return r.Broker == preferred && r.BrokerEpoch == broker.Epoch
		})
}

// serves reports whether the partition has a leader that has reported that it serves in the current
// leader epoch.
func serves(status v1alpha1.PartitionStatus) bool {
	return status.Leader != placement.NoLeader && status.ServingEpoch != nil &&
		*status.ServingEpoch == status.LeaderEpoch
}

// readyCondition returns condition Ready of a partition whose Topic exists.
func (e electorate) readyCondition(status v1alpha1.PartitionStatus,
	decision placement.Decision) metav1.Condition {
	switch {
	case status.Leader == placement.NoLeader:
		return e.offline(decision)
	case !serves(status):
		return conditions.NotReady(v1alpha1.ReasonLeaderStarting, fmt.Sprintf(
			"Broker %d was elected leader with leader epoch %d and does not serve yet. If this persists, "+
				"check the log of the broker and the response of its GET /api/v1/partitions.",
			status.Leader, status.LeaderEpoch))
	}
	return metadata.ServingCondition(status.Leader)
}

// offline returns condition Ready of a partition without a leader. If the partition waits for no
// in-sync replica and a disk of one was replaced, it reports the loss of the records.
func (e electorate) offline(decision placement.Decision) metav1.Condition {
	if len(decision.Lost) > 0 && len(decision.Awaited) == 0 {
		id := decision.Lost[0]
		return conditions.NotReady(v1alpha1.ReasonReplicaLost, fmt.Sprintf(
			"Broker %d has returned with an empty disk. The partition's records are lost unless the "+
				"broker's previous disk returns. To continue without these records, run: %s",
			id, e.acceptCommand(e.brokers[id].Directory)))
	}
	if decision.LeaderEpoch == 0 {
		return conditions.NotReady(v1alpha1.ReasonLeaderOffline, fmt.Sprintf(
			"None of the brokers %v, to which the partition is assigned, is up. The partition serves "+
				"as soon as one of these brokers is up.",
			decision.Replicas))
	}
	message := fmt.Sprintf("The partition waits for brokers %v, whose replicas were in sync. It "+
		"serves again when one of these brokers returns after a graceful stop, or when all of them "+
		"have returned after unclean stops.",
		decision.Awaited)
	for _, id := range decision.Replicas {
		if broker := e.brokers[id]; broker.Liveness == placement.Up && broker.Directory != "" {
			consent := placement.DataLossConsent(broker.Directory, decision.LeaderEpoch)
			return conditions.NotReady(v1alpha1.ReasonLeaderOffline, fmt.Sprintf("%s Broker %d is up, "+
				"but may lack acknowledged records. To give up the missing records and continue with "+
				"this broker as leader, run: %s", message,
				id, e.acceptCommand(consent)))
		}
	}
	return conditions.NotReady(v1alpha1.ReasonLeaderOffline, message)
}

// acceptCommand returns the command by which a user accepts the loss of records. value is the value
// of the annotation.
func (e electorate) acceptCommand(value string) string {
	return fmt.Sprintf("kubectl annotate partition %s -n %s %s=%s --overwrite", e.partition.Name,
		e.partition.Namespace, v1alpha1.AnnotationAcceptDataLoss, value)
}
