package controllers

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// setCompaction sets what the status says of cleaning. Before the brokers were asked, what was
// known before stays; and so it does while no leader answers, but for the condition, which says so.
func (s *topicScope) setCompaction(status *v1alpha1.TopicStatus) {
	switch {
	case s.cluster == nil || !compacts(s.topic, s.cluster):
		status.Compaction = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCompacting)
	case s.report == nil:
		if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCompacting) == nil {
			s.set(status, summary.Unknown("the brokers have not been asked yet"))
		}
	default:
		rows := summary.Rows{Replicas: s.report.rows[s.topic.KafkaName()], At: s.report.at}
		s.set(status, summary.Condition(rows, int(s.topic.Spec.Partitions),
			summary.Asked{Brokers: s.report.asked, Answered: s.report.answered}))
		status.Compaction = s.compaction(status.Compaction, rows)
	}
}

// compaction is the compaction part of the status; before is what it was.
func (s *topicScope) compaction(before *v1alpha1.CompactionStatus,
	rows summary.Rows) *v1alpha1.CompactionStatus {
	var asked *v1alpha1.CleanNowStatus
	if before != nil {
		asked = before.CleanNow
	}
	after := summary.WithCleanNow(summary.Compaction(rows),
		summary.CleanNow(s.topic.CleanNow(), asked, rows, s.replicaCount()))
	if after != nil && after.LastCleaned == nil && before != nil {
		after.LastCleaned = before.LastCleaned // brokers that were restarted have forgotten it
	}
	return after
}

// replicaCount is how many replicas the topic's partitions have.
func (s *topicScope) replicaCount() (count int) {
	for _, partition := range s.partitions {
		count += len(partition.Spec.Replicas)
	}
	return count
}

// hotRounds is how many rounds of reports a status waits in which nothing but hot numbers has
// changed: a minute, as the brokers are asked every reportInterval. docs/adr/0115.
const hotRounds = 4

// pace bounds how often the hot numbers of Topics are written. Only Reconcile of the topic
// controller uses it, of which one runs at a time. What it knows is lost with the operator, at the
// price of one write a Topic.
type pace map[types.NamespacedName]int64 // the round of the last write

// holds tells whether a changed status is not written yet: what has changed is hot, and the last
// write is not hotRounds old.
func (p pace) holds(key types.NamespacedName, before, after v1alpha1.TopicStatus,
	round int64) bool {
	last, written := p[key]
	return written && round-last < hotRounds &&
		equality.Semantic.DeepEqual(cooled(before), cooled(after))
}

// cooled is a status without what changes all the time while producers write and a pass runs.
func cooled(status v1alpha1.TopicStatus) v1alpha1.TopicStatus {
	status = *status.DeepCopy()
	if c := status.Compaction; c != nil {
		c.Dirty, c.Reclaimable, c.ProgressPercent, c.ETA = "", nil, nil, nil
	}
	if condition := meta.FindStatusCondition(status.Conditions,
		v1alpha1.ConditionCompacting); condition != nil {
		condition.Message = "" // it counts partitions
	}
	return status
}
