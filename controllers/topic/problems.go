package topic

import (
	"cmp"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// severity contains the reasons of problems, worst first.
var severity = []string{v1alpha1.ReasonReplicaLost, v1alpha1.ReasonInvalidEntry,
	v1alpha1.ReasonLeaderOffline, v1alpha1.ReasonLeaderFailed, v1alpha1.ReasonLeaderStarting,
	v1alpha1.ReasonUnassigned, v1alpha1.ReasonReassigning, v1alpha1.ReasonUnderReplicated}

// problem is a partition that does not serve or is not fully replicated.
type problem struct {
	partition int32
	reason    string
	entry     partitionset.Entry
	decision  placement.Decision // of a partition without a leader
}

// problems returns the worst problems of the Topic's partitions.
func (s *scope) problems() []v1alpha1.PartitionProblem {
	var all []problem
	for index := range s.topic.Spec.Partitions {
		if p, ok := s.problem(index); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b problem) int {
		return cmp.Or(slices.Index(severity, a.reason)-slices.Index(severity, b.reason),
			cmp.Compare(a.partition, b.partition))
	})
	var described []v1alpha1.PartitionProblem
	for _, p := range all[:min(len(all), v1alpha1.TopicProblemsMax)] {
		described = append(described, v1alpha1.PartitionProblem{Partition: p.partition,
			Reason: p.reason, Message: s.describe(p), Brokers: p.brokers(), Consent: s.consent(p)})
	}
	return described
}

// brokers returns the brokers whose replicas are not in sync, or for which the partition waits.
func (p *problem) brokers() []int32 {
	switch p.reason {
	case v1alpha1.ReasonUnderReplicated:
		return lagging(*p.entry.State)
	case v1alpha1.ReasonLeaderFailed, v1alpha1.ReasonLeaderStarting:
		return []int32{p.entry.State.Leader}
	case v1alpha1.ReasonLeaderOffline:
		if p.decision.LeaderEpoch == 0 {
			return p.decision.Replicas
		}
		return p.decision.Awaited
	}
	return nil
}

// problem returns a partition's problem. ok is false if the partition has no problem.
func (s *scope) problem(index int32) (p problem, ok bool) {
	entry, assigned := s.entries[index]
	p = problem{partition: index, entry: entry}
	switch {
	case s.invalid[index]:
		p.reason = v1alpha1.ReasonInvalidEntry
	case !assigned:
		p.reason = v1alpha1.ReasonUnassigned
		return p, s.refusal == nil
	case entry.State == nil || entry.State.Leader == placement.NoLeader:
		p.reason = v1alpha1.ReasonLeaderOffline
		p.decision = placement.Decide(entry.Placed(), s.brokers, placement.Options{})
		if len(p.decision.Lost) > 0 && len(p.decision.Awaited) == 0 ||
			s.lostVolume(p.decision) != nil {
			p.reason = v1alpha1.ReasonReplicaLost
		}
	case !entry.State.Serving:
		p.reason = v1alpha1.ReasonLeaderStarting
		if s.fault(&p, entry.State.Leader) != "" {
			p.reason = v1alpha1.ReasonLeaderFailed
		}
	case entry.Reassigning():
		p.reason = v1alpha1.ReasonReassigning
	case entry.UnderReplicated():
		p.reason = v1alpha1.ReasonUnderReplicated
	default:
		return problem{}, false
	}
	return p, true
}

// describe returns the message of a problem.
func (s *scope) describe(p problem) string {
	switch p.reason {
	case v1alpha1.ReasonReplicaLost:
		if lost := s.lostVolume(p.decision); lost != nil {
			return fmt.Sprintf("Broker %d has lost its volume, and no other replica has the "+
				"partition's records. They are lost unless the volume of claim %s is restored. To give "+
				"them up, run: %s. Then let the volume be replaced: condition VolumeLost of LogCluster "+
				"%s contains the command.", lost.Broker, lost.Claim,
				s.acceptCommand(p.partition, s.consent(p)), s.cluster.Name)
		}
		id := p.decision.Lost[0]
		if lostLog(p.decision) {
			return s.describeLostLog(p, id)
		}
		return fmt.Sprintf("Broker %d has returned with an empty disk. The partition's records are "+
			"lost unless the broker's previous disk returns. To continue without these records, "+
			"run: %s", id, s.acceptCommand(p.partition, s.consent(p)))
	case v1alpha1.ReasonInvalidEntry:
		return fmt.Sprintf("The entry %q of a PartitionSet cannot be parsed, so the operator leaves "+
			"it as it is: correct the entry; the operator's log contains the error.",
			key(s.topic, p.partition))
	case v1alpha1.ReasonLeaderOffline:
		return s.offline(p)
	case v1alpha1.ReasonLeaderFailed:
		return s.describeFailedLeader(p)
	case v1alpha1.ReasonLeaderStarting:
		return fmt.Sprintf("Broker %d was elected leader with leader epoch %d and does not serve "+
			"yet. If this persists, check the log of the broker and the response of its "+
			"GET /api/v1/partitions.", p.entry.State.Leader, p.entry.State.LeaderEpoch)
	case v1alpha1.ReasonUnassigned:
		if brokers := s.removing[p.partition]; len(brokers) > 0 {
			return fmt.Sprintf("The retained records of an earlier Topic of this name are being "+
				"removed. The partition is assigned when brokers %v have removed them.", brokers)
		}
		return "The operator is assigning the partition to brokers. In a new LogCluster it waits " +
			"until the brokers' racks are known, for at most a minute after the first one has started."
	case v1alpha1.ReasonReassigning:
		return fmt.Sprintf("The partition is being moved to brokers %v; they are copying its "+
			"records.", p.entry.Assignment.Replicas)
	}
	return s.describeLagging(p)
}

// lostLog reports whether the last in-sync replica of a partition has lost its log.
func lostLog(decision placement.Decision) bool {
	return slices.ContainsFunc(decision.ISR, placement.InSyncReplica.LostLog)
}

// describeLostLog describes a partition whose last in-sync replica, on broker id, has lost its log.
func (s *scope) describeLostLog(p problem, id int32) string {
	message := fmt.Sprintf("The log on broker %d, which was the last in-sync replica, has lost "+
		"records: the directory of the partition is missing or incomplete, or is an older one; the "+
		"log of the broker contains the cause.", id)
	leader, ok := s.candidate(p.decision)
	if !ok {
		return message + " No replica is up that could continue without these records."
	}
	return fmt.Sprintf("%s To continue with the records of broker %d, run: %s", message, leader,
		s.acceptCommand(p.partition, s.consent(p)))
}

// lagging returns the replicas that are not in sync.
func lagging(state partitionset.State) []int32 {
	return slices.DeleteFunc(slices.Clone(state.Replicas), func(id int32) bool {
		return slices.ContainsFunc(state.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == id })
	})
}

// offline describes a partition without a leader whose records are not lost.
func (s *scope) offline(p problem) string {
	decision := p.decision
	if decision.Leader != placement.NoLeader {
		return "The operator is electing a leader."
	}
	if decision.LeaderEpoch == 0 {
		return fmt.Sprintf("None of the brokers %v, to which the partition is assigned, is up. The "+
			"partition serves as soon as one of these brokers is up.", decision.Replicas)
	}
	message := fmt.Sprintf("The partition waits for brokers %v, whose replicas were in sync. It "+
		"serves again when one of these brokers returns after a graceful stop, or when all of them "+
		"have returned after unclean stops.", decision.Awaited)
	if id, ok := s.candidate(decision); ok {
		return fmt.Sprintf("%s Broker %d is up, but may lack acknowledged records. To give up "+
			"the missing records and continue with this broker as leader, run: %s", message, id,
			s.acceptCommand(p.partition, s.consent(p)))
	}
	return message
}

// candidate returns the first replica that could lead a leaderless partition after a user's
// consent. A replica that has lost its log is the last choice, because every other replica has at
// least old records.
func (s *scope) candidate(decision placement.Decision) (id int32, ok bool) {
	replicas := slices.Clone(decision.Replicas)
	slices.SortStableFunc(replicas, func(a, b int32) int {
		return cmp.Compare(s.rank(decision, a), s.rank(decision, b))
	})
	for _, id := range replicas {
		if broker := s.brokers[id]; broker.Liveness == placement.Up && broker.Directory != "" {
			return id, true
		}
	}
	return 0, false
}

// rank returns 1 for a replica that has lost its log, and 0 for any other replica.
func (s *scope) rank(decision placement.Decision, id int32) int {
	if lostLog(decision) && slices.Contains(decision.Lost, id) {
		return 1
	}
	return 0
}

// lostVolume returns the lost volume of an in-sync replica for which a partition waits. It returns
// nil unless every such replica was on a lost volume and no other replica could lead.
func (s *scope) lostVolume(decision placement.Decision) *v1alpha1.LostVolume {
	if _, ok := s.candidate(decision); ok || s.cluster == nil || decision.LeaderEpoch == 0 {
		return nil
	}
	var found *v1alpha1.LostVolume
	for _, id := range decision.Awaited {
		index := slices.IndexFunc(s.cluster.Status.LostVolumes,
			func(v v1alpha1.LostVolume) bool { return v.Broker == id })
		if index < 0 {
			return nil
		}
		if found == nil {
			found = &s.cluster.Status.LostVolumes[index]
		}
	}
	return found
}

// consent returns the value with which a user accepts the loss of a partition's records. It returns
// "" if the partition can serve again without a loss, or if no replica could lead.
func (s *scope) consent(p problem) string {
	decision := p.decision
	switch {
	case p.reason == v1alpha1.ReasonReplicaLost:
		if lost := s.lostVolume(decision); lost != nil {
			return placement.DataLossConsent(lost.ClaimUID, decision.LeaderEpoch)
		}
		if lostLog(decision) {
			id, ok := s.candidate(decision)
			if !ok {
				return ""
			}
			return placement.DataLossConsent(s.brokers[id].Directory, decision.LeaderEpoch)
		}
		return s.brokers[decision.Lost[0]].Directory
	case p.reason != v1alpha1.ReasonLeaderOffline || decision.Leader != placement.NoLeader ||
		decision.LeaderEpoch == 0:
		return ""
	}
	if id, ok := s.candidate(decision); ok {
		return placement.DataLossConsent(s.brokers[id].Directory, decision.LeaderEpoch)
	}
	return ""
}

// acceptCommand returns the command with which a user accepts the loss of records.
func (s *scope) acceptCommand(partition int32, consent string) string {
	return fmt.Sprintf("kubectl annotate topics.heartwood.dev %s -n %s %s=%d=%s --overwrite",
		s.topic.Name, s.topic.Namespace, v1alpha1.AnnotationAcceptDataLoss, partition, consent)
}
