package topic

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/reports"
)

// setCompaction sets status.compaction and condition Compacting. Until the operator has completed
// the first round of reports, both keep their previous values. If no leader responds, setCompaction
// sets the condition to Unknown.
func (s *scope) setCompaction(status *v1alpha1.TopicStatus) {
	switch {
	case s.cluster == nil || !reports.Compacted(s.topic, s.cluster):
		status.Compaction = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCompacting)
	case s.report == nil:
		if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCompacting) == nil {
			s.set(status, summary.Unknown("The operator has not read the brokers' reports yet."))
		}
	default:
		rows := summary.Rows{Replicas: s.report.Rows[s.topic.KafkaName()], At: s.report.At}
		s.set(status, summary.Condition(rows, int(s.topic.Spec.Partitions),
			summary.Polled{Brokers: s.report.Polled, Responded: s.report.Responded}))
		status.Compaction = s.compaction(status.Compaction, rows)
	}
}

// compaction returns the new status.compaction; before is its previous value.
func (s *scope) compaction(before *v1alpha1.CompactionStatus,
	rows summary.Rows) *v1alpha1.CompactionStatus {
	var cleanNow *v1alpha1.CleanNowStatus
	if before != nil {
		cleanNow = before.CleanNow
	}
	after := summary.WithCleanNow(summary.Compaction(rows),
		summary.CleanNow(s.topic.CleanNow(), cleanNow, rows, s.replicaCount()))
	if after != nil && after.LastCleanTime == nil && before != nil {
		// A leader does not report this time if its replica is new, or if its broker has an earlier
		// version.
		after.LastCleanTime = before.LastCleanTime
	}
	return after
}

// replicaCount returns the number of replicas of all partitions.
func (s *scope) replicaCount() (count int) {
	for _, entry := range s.entries {
		count += len(entry.Assignment.Replicas)
	}
	return count
}

// deferredRounds is the minimum number of rounds of reports between two writes of a Topic's status
// if only fast-changing numbers have changed. With the default interval between rounds, this is a
// minute (ADR 0115).
const deferredRounds = 4

// statusWrites limits the rate of status writes in which only fast-changing numbers have changed.
// It stores the round of each Topic's last write. After a restart of the operator, these rounds are
// lost, which costs one additional write per Topic.
type statusWrites struct {
	rounds keyed.Map[int64]
}

// deferred reports whether the write of a changed status must wait for a later round. This is the
// case if only fast-changing numbers have changed and the last write was less than deferredRounds
// rounds ago.
func (w *statusWrites) deferred(key types.NamespacedName, before, after v1alpha1.TopicStatus,
	round int64) bool {
	last, written := w.rounds.Get(key)
	return written && round-last < deferredRounds &&
		equality.Semantic.DeepEqual(withoutFastNumbers(before), withoutFastNumbers(after))
}

func (w *statusWrites) record(key types.NamespacedName, round int64) { w.rounds.Set(key, round) }

func (w *statusWrites) forget(key types.NamespacedName) { w.rounds.Delete(key) }

// withoutFastNumbers returns a status without the values that change continuously while producers
// write or a pass runs.
func withoutFastNumbers(status v1alpha1.TopicStatus) v1alpha1.TopicStatus {
	status = *status.DeepCopy()
	if c := status.Compaction; c != nil {
		c.DirtyPercent, c.Reclaimable, c.ProgressPercent, c.EstimatedCompletionTime = nil, nil, nil, nil
	}
	if condition := meta.FindStatusCondition(status.Conditions,
		v1alpha1.ConditionCompacting); condition != nil {
		condition.Message = "" // the message contains numbers of partitions
	}
	return status
}
