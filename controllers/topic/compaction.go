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

// setCompaction sets the compaction part of the status. Before the first report the previous values
// stay. While no leader responds the numbers stay too, and the condition says so.
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

// compaction returns status.compaction; before is its previous value.
func (s *scope) compaction(before *v1alpha1.CompactionStatus,
	rows summary.Rows) *v1alpha1.CompactionStatus {
	var cleanNow *v1alpha1.CleanNowStatus
	if before != nil {
		cleanNow = before.CleanNow
	}
	after := summary.WithCleanNow(summary.Compaction(rows),
		summary.CleanNow(s.topic.CleanNow(), cleanNow, rows, s.replicaCount()))
	if after != nil && after.LastCleaned == nil && before != nil {
		after.LastCleaned = before.LastCleaned // restarted brokers no longer know it
	}
	return after
}

// replicaCount returns the number of replicas of all partitions.
func (s *scope) replicaCount() (count int) {
	for _, partition := range s.partitions {
		count += len(partition.Spec.Replicas)
	}
	return count
}

// deferredRounds is the number of rounds of reports for which a status write is deferred if only
// fast-changing numbers have changed. With the default interval of reports that is a minute (ADR
// 0115).
const deferredRounds = 4

// statusWrites limits how often the fast-changing numbers of Topics are written. It records the
// round of the last write of each Topic. A restart of the operator loses the rounds, which costs
// one write per Topic.
type statusWrites struct {
	rounds keyed.Map[int64]
}

// deferred reports whether a changed status is not to be written yet: only fast-changing numbers
// have changed, and the last write is less than deferredRounds old.
func (w *statusWrites) deferred(key types.NamespacedName, before, after v1alpha1.TopicStatus,
	round int64) bool {
	last, written := w.rounds.Get(key)
	return written && round-last < deferredRounds &&
		equality.Semantic.DeepEqual(withoutFastNumbers(before), withoutFastNumbers(after))
}

func (w *statusWrites) record(key types.NamespacedName, round int64) { w.rounds.Set(key, round) }

func (w *statusWrites) forget(key types.NamespacedName) { w.rounds.Delete(key) }

// withoutFastNumbers returns a status without the values that change permanently while producers
// write and a pass runs.
func withoutFastNumbers(status v1alpha1.TopicStatus) v1alpha1.TopicStatus {
	status = *status.DeepCopy()
	if c := status.Compaction; c != nil {
		c.Dirty, c.Reclaimable, c.ProgressPercent, c.ETA = "", nil, nil, nil
	}
	if condition := meta.FindStatusCondition(status.Conditions,
		v1alpha1.ConditionCompacting); condition != nil {
		condition.Message = "" // the message contains a number of partitions
	}
	return status
}
