package controllers

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// electorate is all that a partition's election looks at. It is gathered first and not changed after, so elect is a pure
// function of it: asked again with what it answered, it answers the same.
type electorate struct {
	partition *v1alpha1.Partition   // from the cache: elect changes a copy of its status only
	brokers   map[int32]brokerState // of every id of spec.replicas; an id that is missing is gone
	// topicPartitions is how many partitions the Topic has, 0 if there is no such Topic in the partition's cluster.
	topicPartitions int32
}

// elect returns the status the partition should have, as far as it is the operator's to say: leader, leaderEpoch,
// leaderDirectory, condition Ready, and of the in-sync replicas the incarnation of who is elected.
//
// A new incarnation of the leader is a new election: what the one before wrote last and did not sync may be gone, and
// clients and followers see that by the epoch.
//
// What must hold from one status to the next: leaderEpoch never goes back; it grows whenever leader or the leader's
// incarnation changes, also to no leader, or the leader's log knows later epochs, and not otherwise; nobody becomes leader
// whose records are lost, unless that was accepted. Two operators that decide at once do no harm: the status is written by
// compare-and-swap, and one of them fails.
func (e electorate) elect() v1alpha1.PartitionStatus {
	status := *e.partition.Status.DeepCopy()
	if e.partition.Spec.Index >= e.topicPartitions {
		e.retire(&status)
		return status
	}
	// In sync and alive is not enough to lead here: mayLead also asks for the disk and the incarnation.
	candidate := placement.Candidate{Replicas: e.partition.Spec.Replicas, ISR: e.inSync(), Leader: status.Leader}
	leader, changed := placement.Elect(candidate, e.mayLead)
	switch {
	case leader == placement.NoLeader && changed:
		status.Leader = placement.NoLeader
		status.LeaderEpoch++ // who led and lives on unseen must not go on under a valid epoch
	// The same leader is installed again, too: as another incarnation, or above epochs that its log knows.
	case leader != placement.NoLeader && (changed || e.reincarnated(leader) || e.forgotten()):
		e.install(&status, leader)
	}
	setCondition(&status, e.partition.Generation, e.readiness(status))
	return status
}

// retire takes the leader from a partition whose Topic is gone. What is known of its replicas stays for the next Topic: isr
// and leaderDirectory say where the records are, leaderEpoch which epochs they may carry.
func (e electorate) retire(status *v1alpha1.PartitionStatus) {
	if status.Leader != placement.NoLeader {
		status.Leader = placement.NoLeader
		status.LeaderEpoch++
	}
	setCondition(status, e.partition.Generation, notReady(v1alpha1.ReasonRetained,
		"the Topic is gone or has fewer partitions; this remembers where the records are, and a Topic of this name takes them up again"))
}

// inSync returns the replicas that may be elected. Before the first election all are alike: there are no records yet.
// Both must be empty for that: an ISR that is empty after an election would mean that nobody has the records.
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

// mayLead tells whether a broker may lead. One whose life is in doubt may go on as it is, and no more: to take leadership
// from it might stop a broker that is well, and to give it some might give it to one long dead.
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
// disk than the one it was elected with. Somebody may have agreed to go on without them:
// the consent names the new disk, so it does not hold for the next one that is lost.
//
// leaderDirectory tells of one disk only, so nothing can be said of a replica that was in sync together with others. A
// directory that either side does not know is no proof of a loss.
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

// reincarnated tells whether the leader is another incarnation than the one that was elected. That is
// so also when it was restarted faster than its Lease ran out, and nobody saw it down.
func (e electorate) reincarnated(leader int32) bool {
	elected := v1alpha1.InSyncReplica{Broker: leader, BrokerEpoch: e.brokers[leader].epoch}
	return !slices.Contains(e.partition.Status.ISR, elected)
}

// forgotten tells whether the leader holds records of later epochs than this Partition knows, as when the Partition was
// deleted and made again. Its log refuses to be led then: other records under epochs that were given out once would be
// another history.
func (e electorate) forgotten() bool {
	found := e.partition.Status.FoundEpoch
	return found != nil && *found >= e.partition.Status.LeaderEpoch
}

// install makes a broker the leader of the next epoch. Its entry in the ISR gets its present incarnation, in place; the
// others stay.
//
// The new epoch is max(leaderEpoch, foundEpoch) + 1: above all that was ever given out, as far as it is known. foundEpoch is
// used up by that. servingEpoch stays: it is below the new epoch, and that is what says that the leader does not serve yet.
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
	// A broker that does not tell its disk leaves what is known: else its next loss would go unseen.
	if directory := e.brokers[leader].directory; directory != "" {
		status.LeaderDirectory = directory
	}
}

// readiness is condition Ready of a partition whose Topic is there. The leader's word (servingEpoch) counts for the epoch
// that it names alone.
func (e electorate) readiness(status v1alpha1.PartitionStatus) metav1.Condition {
	if status.Leader == placement.NoLeader {
		return e.offline()
	}
	if status.ServingEpoch == nil || *status.ServingEpoch != status.LeaderEpoch {
		return notReady(v1alpha1.ReasonLeaderStarting,
			fmt.Sprintf("broker %d is elected with leader epoch %d and does not serve yet; if that lasts, its log and "+
				"GET /api/v1/partitions say why", status.Leader, status.LeaderEpoch))
	}
	return ready(fmt.Sprintf("broker %d leads", status.Leader))
}

// offline says why nobody leads, and what to do. Lost records come first: waiting, the other advice, would not help.
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
