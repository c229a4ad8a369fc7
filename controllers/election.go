package controllers

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// electorate is all that a partition's election looks at.
type electorate struct {
	partition *v1alpha1.Partition
	brokers   map[int32]brokerState // the replicas'
	// topicPartitions is how many partitions the Topic has, 0 if there is no such Topic in the partition's cluster.
	topicPartitions int32
}

// elect returns the status the partition should have, as far as it is the operator's to say: leader, leaderEpoch,
// leaderDirectory, condition Ready, and of the in-sync replicas the incarnation of who is elected.
//
// A new incarnation of the leader is a new election: what the one before wrote last and did not sync may be gone, and clients
// and followers see that by the epoch.
func (e electorate) elect() v1alpha1.PartitionStatus {
	status := *e.partition.Status.DeepCopy()
	if e.partition.Spec.Index >= e.topicPartitions {
		e.retire(&status)
		return status
	}
	candidate := placement.Candidate{Replicas: e.partition.Spec.Replicas, ISR: e.inSync(), Leader: status.Leader}
	leader, changed := placement.Elect(candidate, e.mayLead)
	switch {
	case leader == placement.NoLeader && changed:
		status.Leader = placement.NoLeader
		status.LeaderEpoch++ // who led and lives on unseen must not go on under a valid epoch
	case leader != placement.NoLeader && (changed || e.reincarnated(leader) || e.forgotten()):
		e.install(&status, leader)
	}
	setCondition(&status, e.partition.Generation, e.readiness(status))
	return status
}

// retire takes the leader from a partition whose Topic is gone. What is known of its replicas stays for the next Topic.
func (e electorate) retire(status *v1alpha1.PartitionStatus) {
	if status.Leader != placement.NoLeader {
		status.Leader = placement.NoLeader
		status.LeaderEpoch++
	}
	setCondition(status, e.partition.Generation, notReady(v1alpha1.ReasonRetained,
		"the Topic is gone or has fewer partitions; this remembers where the records are, and a Topic of this name takes them up again"))
}

// inSync returns the replicas that may be elected. Before the first election all are alike: there are no records yet.
func (e electorate) inSync() []int32 {
	if e.partition.Status.LeaderEpoch == 0 && len(e.partition.Status.ISR) == 0 {
		return e.partition.Spec.Replicas
	}
	var ids []int32
	for _, replica := range e.partition.Status.ISR {
		ids = append(ids, replica.Broker)
	}
	return ids
}

// mayLead tells whether a broker may lead. One whose life is in doubt may go on as it is, and no more.
func (e electorate) mayLead(id int32) bool {
	switch e.brokers[id].life {
	case up:
		return !e.lost(id)
	case doubtful:
		return id == e.partition.Status.Leader && !e.reincarnated(id) && !e.lost(id)
	default:
		return false
	}
}

// lost tells whether a broker's records of the partition are gone: it alone was in sync, so it led, and now it has another
// disk than the one it was elected with. Somebody may have agreed to go on without them.
func (e electorate) lost(id int32) bool {
	if isr := e.partition.Status.ISR; len(isr) != 1 || isr[0].Broker != id {
		return false
	}
	had, has := e.partition.Status.LeaderDirectory, e.brokers[id].directory
	if had == "" || has == "" || had == has {
		return false
	}
	return e.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss] != has
}

// reincarnated tells whether the leader is another incarnation than the one that was elected.
func (e electorate) reincarnated(leader int32) bool {
	elected := v1alpha1.InSyncReplica{Broker: leader, BrokerEpoch: e.brokers[leader].epoch}
	return !slices.Contains(e.partition.Status.ISR, elected)
}

// forgotten tells whether the leader holds records of later epochs than this Partition knows, as when the Partition was deleted
// and made again. Its log refuses to be led then: other records under epochs that were given out once would be another history.
func (e electorate) forgotten() bool {
	found := e.partition.Status.FoundEpoch
	return found != nil && *found >= e.partition.Status.LeaderEpoch
}

func (e electorate) install(status *v1alpha1.PartitionStatus, leader int32) {
	elected := v1alpha1.InSyncReplica{Broker: leader, BrokerEpoch: e.brokers[leader].epoch}
	if at := slices.IndexFunc(status.ISR, func(r v1alpha1.InSyncReplica) bool { return r.Broker == leader }); at >= 0 {
		status.ISR[at] = elected
	} else {
		status.ISR = append(status.ISR, elected)
	}
	status.Leader = leader
	if found := status.FoundEpoch; found != nil {
		status.LeaderEpoch, status.FoundEpoch = max(status.LeaderEpoch, *found), nil
	}
	status.LeaderEpoch++
	if directory := e.brokers[leader].directory; directory != "" {
		status.LeaderDirectory = directory
	}
}

func (e electorate) readiness(status v1alpha1.PartitionStatus) metav1.Condition {
	if status.Leader == placement.NoLeader {
		return e.offline()
	}
	if status.ServingEpoch == nil || *status.ServingEpoch != status.LeaderEpoch {
		return notReady(v1alpha1.ReasonLeaderStarting,
			fmt.Sprintf("broker %d is elected with leader epoch %d and does not serve yet", status.Leader, status.LeaderEpoch))
	}
	return ready(fmt.Sprintf("broker %d leads", status.Leader))
}

// offline says why nobody leads, and what to do.
func (e electorate) offline() metav1.Condition {
	for _, id := range e.partition.Spec.Replicas {
		if e.brokers[id].life == up && e.lost(id) {
			return notReady(v1alpha1.ReasonReplicaLost, fmt.Sprintf(
				"broker %d came back with an empty disk: the records are gone unless the old one returns. To go on without them: "+
					"kubectl annotate partition %s -n %s %s=%s", id, e.partition.Name, e.partition.Namespace,
				v1alpha1.AnnotationAcceptDataLoss, e.brokers[id].directory))
		}
	}
	return notReady(v1alpha1.ReasonLeaderOffline, fmt.Sprintf(
		"none of the brokers %v that hold the records is up: the partition serves again when one of them is", e.inSync()))
}
