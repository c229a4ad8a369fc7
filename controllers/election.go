package controllers

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// electorate is all that a partition's election looks at. It is gathered first and not changed
// after, so elect is a pure function of it: asked again with what it answered, it answers the same.
type electorate struct {
	// from the cache: elect changes a copy of its status only
	partition *v1alpha1.Partition
	// of every id that the partition names; an id that is missing is gone
	brokers map[int32]placement.BrokerState
	// topicPartitions is how many partitions the Topic has, 0 if there is no such Topic in the
	// partition's cluster.
	topicPartitions int32
	assignment      string // the name of what this election assigns: new each time
	unclean         bool   // the Topic would rather lose records than wait
	preferred       bool   // leadership goes back to the preferred leader
}

// elected is what came out of an election.
type elected struct {
	status v1alpha1.PartitionStatus
	// unproven: the leader was elected now, and may lack acknowledged records; see
	// placement.Decision.
	unproven bool
}

// elect returns the status the partition should have, as far as it is the operator's to say:
// replicas, leader, leaderEpoch, leaderDirectory, condition Ready, and of the in-sync replicas who
// is gone and in which incarnations the others are. The decision is placement's, and its promises
// hold here.
//
// Two operators that decide at once do no harm: the status is written by compare-and-swap, and one
// of them fails. servingEpoch stays: it is below a new epoch, and that is what says that the leader
// does not serve yet.
func (e electorate) elect() elected {
	status := *e.partition.Status.DeepCopy()
	placed := metadata.PlacedPartition(e.partition)
	if e.partition.Spec.Index >= e.topicPartitions {
		e.retire(&status, placed)
		return elected{status: status}
	}
	decision := placement.Decide(placed, e.brokers, placement.Options{
		ReplicaIncarnation: e.assignment, AllowUnclean: e.unclean,
		PreferLeader:     e.preferred || e.askedHome(),
		AcceptedDataLoss: e.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss],
	})
	metadata.RecordPlaced(&status, decision.Partition)
	metadata.RecordCondition(&status, e.partition.Generation, e.readiness(status, decision))
	return elected{status, decision.Unclean}
}

// retire takes the leader from a partition whose Topic is gone. What is known of its replicas stays
// for the next Topic: isr and leaderDirectory say where the records are, leaderEpoch which epochs
// they may carry.
func (e electorate) retire(status *v1alpha1.PartitionStatus, placed placement.Partition) {
	retired := placement.Retire(placed)
	status.Leader, status.LeaderEpoch = retired.Leader, retired.LeaderEpoch
	metadata.RecordCondition(status, e.partition.Generation, notReady(
		v1alpha1.ReasonRetained,
		"the Topic is gone or has fewer partitions; this remembers where the records are, and a Topic of this name takes them up again",
	))
}

// askedHome tells whether a client asked for the preferred leader (Kafka's ElectLeaders) in this
// very leader epoch.
func (e electorate) askedHome() bool {
	return e.partition.Annotations[v1alpha1.AnnotationElectPreferred] == strconv.Itoa(
		int(e.partition.Status.LeaderEpoch),
	)
}

// couldGoHome tells whether another than the preferred leader leads and serves, and the preferred
// one could: in sync, in the incarnation that lives, and staying.
func (e electorate) couldGoHome() bool {
	status, home := e.partition.Status, e.partition.Spec.Replicas[0]
	if status.Leader == placement.NoLeader || status.Leader == home ||
		e.partition.Spec.Index >= e.topicPartitions || !serves(status) {
		return false
	}
	standing := e.brokers[home]
	return standing.Liveness == placement.Up && !standing.Leaving &&
		slices.ContainsFunc(status.ISR, func(r v1alpha1.InSyncReplica) bool {
			return r.Broker == home && r.BrokerEpoch == standing.Epoch
		})
}

// serves tells whether the leader says that it serves. Its word counts for the epoch that it names
// alone.
func serves(status v1alpha1.PartitionStatus) bool {
	return status.Leader != placement.NoLeader && status.ServingEpoch != nil &&
		*status.ServingEpoch == status.LeaderEpoch
}

// readiness is condition Ready of a partition whose Topic is there.
func (e electorate) readiness(status v1alpha1.PartitionStatus,
	decision placement.Decision) metav1.Condition {
	switch {
	case status.Leader == placement.NoLeader:
		return e.offline(decision)
	case !serves(status):
		return notReady(
			v1alpha1.ReasonLeaderStarting,
			fmt.Sprintf(
				"broker %d is elected with leader epoch %d and does not serve yet; if that lasts, its log and "+
					"GET /api/v1/partitions say why",
				status.Leader,
				status.LeaderEpoch,
			),
		)
	}
	return metadata.ServingCondition(status.Leader)
}

// offline says why nobody leads, and what to do. Lost records come first where nobody is left to
// wait for.
func (e electorate) offline(decision placement.Decision) metav1.Condition {
	if len(decision.Lost) > 0 && len(decision.Awaited) == 0 {
		id := decision.Lost[0]
		return notReady(v1alpha1.ReasonReplicaLost, fmt.Sprintf(
			"broker %d came back with an empty disk: the records are gone unless the old one returns. To go on without them: %s",
			id,
			e.consent(e.brokers[id].Directory),
		))
	}
	awaited := decision.Awaited
	if decision.LeaderEpoch == 0 {
		awaited = decision.Replicas
	}
	message := fmt.Sprintf(
		"none of the brokers %v that hold the records is up: the partition serves again when they are back",
		awaited,
	)
	if decision.LeaderEpoch == 0 {
		message = fmt.Sprintf(
			"none of the brokers %v is up: the partition serves when one of them is",
			awaited,
		)
	}
	for _, id := range decision.Replicas {
		if standing := e.brokers[id]; standing.Liveness == placement.Up &&
			standing.Directory != "" &&
			decision.LeaderEpoch > 0 {
			return notReady(
				v1alpha1.ReasonLeaderOffline,
				fmt.Sprintf(
					"%s. Broker %d is up, and may lack some of them; to go on with what it has: %s",
					message,
					id,
					e.consent(placement.DataLossConsent(standing.Directory,
						decision.LeaderEpoch)),
				),
			)
		}
	}
	return notReady(v1alpha1.ReasonLeaderOffline, message)
}

// consent is the command that accepts the loss of records.
func (e electorate) consent(value string) string {
	return fmt.Sprintf("kubectl annotate partition %s -n %s %s=%s --overwrite", e.partition.Name,
		e.partition.Namespace,
		v1alpha1.AnnotationAcceptDataLoss, value)
}

// named are all brokers that a partition names: an election looks at each of them.
func named(partition *v1alpha1.Partition) []int32 {
	all := slices.Concat(partition.Spec.Replicas, partition.Status.Replicas)
	for _, replica := range partition.Status.ISR {
		all = append(all, replica.Broker)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// underReplicated tells whether a partition has no leader, or not all the replicas in sync that it
// is to have.
func underReplicated(partition *v1alpha1.Partition) bool {
	if partition.Status.Leader == placement.NoLeader {
		return true
	}
	return slices.ContainsFunc(partition.Spec.Replicas, func(id int32) bool {
		return !slices.ContainsFunc(partition.Status.ISR,
			func(r v1alpha1.InSyncReplica) bool { return r.Broker == id })
	})
}

// moves tells whether replicas are elsewhere than they are to be.
func moves(partition *v1alpha1.Partition) bool {
	return len(partition.Status.Replicas) > 0 &&
		!slices.Equal(partition.Status.Replicas, partition.Spec.Replicas)
}
