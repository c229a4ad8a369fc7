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

// electorate is the complete input of a partition's election. It is gathered first and not changed,
// so elect is a pure function of it. Applied to its own result, elect changes nothing.
type electorate struct {
	// partition is from the cache; elect changes a copy of its status only.
	partition *v1alpha1.Partition
	// brokers has the state of every broker that the partition names. A missing one is down.
	brokers map[int32]placement.BrokerState
	// topicPartitions is the number of partitions of the Topic, 0 if the partition's cluster has no
	// such Topic.
	topicPartitions int32
	// replicaIncarnation is the unique id of the replica incarnations that this election begins.
	replicaIncarnation string
	allowUnclean       bool // the Topic prefers availability over acknowledged records
	preferLeader       bool // move leadership back to the preferred leader
}

// elected is the result of an election.
type elected struct {
	status v1alpha1.PartitionStatus
	// unclean reports that the leader was elected now and may lack acknowledged records; see
	// placement.Decision.
	unclean bool
}

// elect returns the status that the partition should have, as far as the operator decides it:
// replicas, leader, leaderEpoch, leaderDirectory and condition Ready; and of isr, which brokers are
// removed and with which broker epochs the others remain. placement.Decide makes the decision and
// documents its guarantees.
//
// Two operators that decide at the same time are harmless: the status is written by
// compare-and-swap, so one of the writes fails. servingEpoch is kept. It is less than a new leader
// epoch, which shows that the new leader does not serve yet.
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

// retire removes the leader of a partition whose Topic was deleted or shrunk. The rest of the
// status is kept for a later Topic: isr and leaderDirectory name the replicas that have the
// records, leaderEpoch the epochs that the records may carry.
func (e electorate) retire(status *v1alpha1.PartitionStatus, placed placement.Partition) {
	retired := placement.Retire(placed)
	status.Leader, status.LeaderEpoch = retired.Leader, retired.LeaderEpoch
	metadata.RecordCondition(status, e.partition.Generation, conditions.NotReady(
		v1alpha1.ReasonRetained,
		"The Topic does not exist or has fewer partitions. The records are kept, and this Partition "+
			"lists their replicas: a Topic of the same name that has this partition continues "+
			"with these records.",
	))
}

// preferredRequested reports whether a client has requested the preferred leader (Kafka's
// ElectLeaders) in the current leader epoch.
func (e electorate) preferredRequested() bool {
	requested := e.partition.Annotations[v1alpha1.AnnotationElectPreferred]
	return requested == strconv.Itoa(int(e.partition.Status.LeaderEpoch))
}

// preferredEligible reports whether another broker than the preferred leader leads and serves, and
// the preferred leader could take over: it is in sync in its current broker epoch and not leaving.
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

// serves reports whether the leader has reported that it serves in the current leader epoch.
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
			"Broker %d was elected with leader epoch %d and does not serve yet; if this persists, "+
				"check the log of the broker and its GET /api/v1/partitions.",
			status.Leader, status.LeaderEpoch))
	}
	return metadata.ServingCondition(status.Leader)
}

// offline returns condition Ready of a partition without a leader. If no other replica can return
// with the records, it reports the lost ones.
func (e electorate) offline(decision placement.Decision) metav1.Condition {
	if len(decision.Lost) > 0 && len(decision.Awaited) == 0 {
		id := decision.Lost[0]
		return conditions.NotReady(v1alpha1.ReasonReplicaLost, fmt.Sprintf(
			"Broker %d returned with an empty disk: the records are lost unless its previous disk "+
				"returns. To continue without them, run: %s",
			id, e.acceptCommand(e.brokers[id].Directory)))
	}
	if decision.LeaderEpoch == 0 {
		return conditions.NotReady(v1alpha1.ReasonLeaderOffline, fmt.Sprintf(
			"None of the brokers %v is up; the partition serves as soon as one of them is.",
			decision.Replicas))
	}
	message := fmt.Sprintf("None of the brokers %v that have all records is up; the partition "+
		"serves again as soon as one of them returns, or all of them if they stopped uncleanly.",
		decision.Awaited)
	for _, id := range decision.Replicas {
		if broker := e.brokers[id]; broker.Liveness == placement.Up && broker.Directory != "" {
			consent := placement.DataLossConsent(broker.Directory, decision.LeaderEpoch)
			return conditions.NotReady(v1alpha1.ReasonLeaderOffline, fmt.Sprintf("%s Broker %d is up "+
				"and may lack some of the records. To continue with its records, run: %s", message,
				id, e.acceptCommand(consent)))
		}
	}
	return conditions.NotReady(v1alpha1.ReasonLeaderOffline, message)
}

// acceptCommand returns the command by which a user accepts the loss of records.
func (e electorate) acceptCommand(value string) string {
	return fmt.Sprintf("kubectl annotate partition %s -n %s %s=%s --overwrite", e.partition.Name,
		e.partition.Namespace, v1alpha1.AnnotationAcceptDataLoss, value)
}
