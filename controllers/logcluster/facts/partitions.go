package facts

import (
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rollout"
	"heartwood.dev/heartwood/internal/placement"
)

// replication describes the replicas of the partitions of existing Topics. It ignores retained
// partitions, whose Topic was deleted or has fewer partitions, because they do not serve clients.
type replication struct {
	Partitions, UnderReplicated, Leaderless int32
	// behind are the under-replicated partitions that are not being reassigned.
	behind []partitionset.Key
	// reassigning are the partitions that are being reassigned. Their new replicas are not in sync
	// while they are copied, which is no fault.
	reassigning []partitionset.Key
}

func (s *Facts) Replication() replication {
	var r replication
	tags := s.topicTags()
	for key, entry := range s.Sets.All() {
		if !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		r.Partitions++
		if entry.UnderReplicated() {
			r.UnderReplicated++
		}
		if entry.Leaderless() {
			r.Leaderless++
		}
		switch {
		case entry.Reassigning():
			r.reassigning = append(r.reassigning, key)
		case entry.UnderReplicated():
			r.behind = append(r.behind, key)
		}
	}
	return r
}

// Condition returns condition Replicated. Unlike on a Topic, UnderReplicated takes precedence over
// Reassigning: a rebalance of the LogCluster may take hours, and must not hide a broker that does
// not follow.
func (r replication) Condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case len(r.behind) > 0:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf("%d of %d partitions are under-replicated: %s.",
			len(r.behind), r.Partitions, firstKeys(r.behind))
		if len(r.reassigning) > 0 {
			condition.Message += fmt.Sprintf(" %d others are being reassigned.", len(r.reassigning))
		}
	case len(r.reassigning) > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions are being reassigned: %s.",
			len(r.reassigning), r.Partitions, firstKeys(r.reassigning))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "Every replica is in sync."
	}
	return condition
}

// ReadyMessage returns the message of condition Ready while all brokers are up. Ready does not
// depend on the replicas, but its message must not hide them.
func (r replication) ReadyMessage() string {
	if r.UnderReplicated == 0 {
		return "All brokers are up."
	}
	return fmt.Sprintf("All brokers are up; %d of %d partitions are under-replicated.",
		r.UnderReplicated, r.Partitions)
}

// firstKeys joins the names of the first partitions. They are sorted: the order of the entries
// changes, and a message in another order would be another write of the status.
func firstKeys(keys []partitionset.Key) string {
	slices.SortFunc(keys, partitionset.Key.Compare)
	var names []string
	for _, key := range keys[:min(len(keys), namesMax+1)] {
		names = append(names, key.String())
	}
	return FirstNames(names)
}

// stops returns the partitions of existing Topics.
func (s *Facts) stops() []rollout.Partition {
	tags, minISR := s.topicTags(), make(map[string]int, len(s.Topics))
	lends := map[string]bool{}
	for i := range s.Topics {
		topic := &s.Topics[i]
		minISR[topic.Name], lends[topic.Name] = 1, s.LendsTo(topic)
		settings, err := metadata.SettingsOf(topic, s.Cluster)
		if err == nil {
			minISR[topic.Name] = settings.MinInSyncReplicas
		}
	}
	var all []rollout.Partition
	for key, entry := range s.Sets.All() {
		if entry.State == nil || !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		stop := placement.Stop{Replicas: entry.State.Replicas, MinISR: minISR[key.Topic]}
		for _, member := range entry.State.ISR {
			stop.InSync = append(stop.InSync, member.Broker)
		}
		all = append(all, rollout.Partition{Name: key.String(), Stop: stop,
			// a partition without a leader cannot be copied, and serves nobody
			Lend: lends[key.Topic] && entry.State.Leader != placement.NoLeader})
	}
	return all
}

// Leaders returns the number of partitions that each broker leads.
func (s *Facts) Leaders() map[int32]int {
	leaders := map[int32]int{}
	for _, entry := range s.Sets.All() {
		if entry.State != nil && entry.State.Leader != placement.NoLeader {
			leaders[entry.State.Leader]++
		}
	}
	return leaders
}

// retained returns the partitions of deleted topics whose records are retained.
func (s *Facts) retained() (all []rollout.Partition) {
	tags := s.topicTags()
	for key, entry := range s.Sets.All() {
		if !entry.BelongsTo(tags[key.Topic]) {
			all = append(all, rollout.Partition{Name: key.String(),
				Stop: placement.Stop{Replicas: entry.Brokers()}})
		}
	}
	return all
}

// InISR reports whether a broker is in the ISR of a partition.
func (s *Facts) InISR(id int32) bool { return InISR(s.Sets, id) }

// InISR reports whether a broker is in the ISR of one of the partitions.
func InISR(all *sets.Cluster, id int32) bool {
	for _, entry := range all.All() {
		if entry.State != nil && slices.ContainsFunc(entry.State.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == id }) {
			return true
		}
	}
	return false
}

// Assignments returns the assigned replicas of each partition of existing Topics, by its name.
func (s *Facts) Assignments() iter.Seq2[string, []int32] {
	return func(yield func(string, []int32) bool) {
		tags := s.topicTags()
		for key, entry := range s.Sets.All() {
			if entry.BelongsTo(tags[key.Topic]) && entry.Assignment != nil &&
				!yield(key.String(), entry.Assignment.Replicas) {
				return
			}
		}
	}
}

// LendsTo reports whether the partitions of a Topic get a second replica while their broker is
// restarted.
func (s *Facts) LendsTo(topic *v1alpha1.Topic) bool {
	return s.Cluster.Spec.Rollout.LendsReplicas() && s.HasSingleReplica(topic)
}

// HasSingleReplica reports whether the partitions of a Topic have one replica.
func (s *Facts) HasSingleReplica(topic *v1alpha1.Topic) bool {
	return metadata.Replicas(topic.Spec.TopicSettings, s.Cluster) == 1
}

// CountLent returns the number of partitions with a lent replica.
func (s *Facts) CountLent() (count int32) {
	tags := s.topicTags()
	for key, entry := range s.Sets.All() {
		if entry.Lent && entry.BelongsTo(tags[key.Topic]) {
			count++
		}
	}
	return count
}
