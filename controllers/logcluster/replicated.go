package logcluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// replication describes the replicas of the partitions of existing Topics. It ignores retained
// partitions, whose Topic was deleted or has fewer partitions, because they do not serve clients.
type replication struct {
	partitions, underReplicated, leaderless int32
	// behind are the under-replicated partitions that are not being reassigned.
	behind []partitionset.Key
	// reassigning are the partitions that are being reassigned. Their new replicas are not in sync
	// while they are copied, which is no fault.
	reassigning []partitionset.Key
}

func (s *scope) replication() replication {
	var r replication
	tags := s.topicTags()
	for key, entry := range s.sets.All() {
		if !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		r.partitions++
		if entry.UnderReplicated() {
			r.underReplicated++
		}
		if entry.Leaderless() {
			r.leaderless++
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

// condition returns condition Replicated. Unlike on a Topic, UnderReplicated takes precedence over
// Reassigning: a rebalance of the LogCluster may take hours, and must not hide a broker that does
// not follow.
func (r replication) condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case len(r.behind) > 0:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf("%d of %d partitions are under-replicated: %s.",
			len(r.behind), r.partitions, firstKeys(r.behind))
		if len(r.reassigning) > 0 {
			condition.Message += fmt.Sprintf(" %d others are being reassigned.", len(r.reassigning))
		}
	case len(r.reassigning) > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions are being reassigned: %s.",
			len(r.reassigning), r.partitions, firstKeys(r.reassigning))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "Every replica is in sync."
	}
	return condition
}

// readyMessage returns the message of condition Ready while all brokers are up. Ready does not
// depend on the replicas, but its message must not hide them.
func (r replication) readyMessage() string {
	if r.underReplicated == 0 {
		return "All brokers are up."
	}
	return fmt.Sprintf("All brokers are up; %d of %d partitions are under-replicated.",
		r.underReplicated, r.partitions)
}

// firstKeys joins the names of the first partitions. They are sorted: the order of the entries
// changes, and a message in another order would be another write of the status.
func firstKeys(keys []partitionset.Key) string {
	slices.SortFunc(keys, partitionset.Key.Compare)
	var names []string
	for _, key := range keys[:min(len(keys), namesMax+1)] {
		names = append(names, key.String())
	}
	return firstNames(names)
}
