package controllers

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// phases a partition may be in, the busiest last: api/report names them. One that is not here, as a newer broker may give,
// counts as idle.
var phases = []string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}

// phaseRunning is the first phase in which a pass runs.
var phaseRunning = slices.Index(phases, "indexing")

// reasons of condition Compacting, by how much a user wants to know them: the first that any partition gives is the topic's.
// What a user must act upon or wait for comes before what explains why nothing is done. Unknown is not here: no broker gives
// it.
var reasons = []struct{ reason, meaning string }{
	{v1alpha1.ReasonQuarantined, "the last pass failed, and is tried again with back-off; the broker's log and " +
		"GET /api/v1/partitions say why"},
	{v1alpha1.ReasonCleaning, "a pass runs"},
	{v1alpha1.ReasonQueued, "a pass is due and waits for a worker"},
	{v1alpha1.ReasonBlockedByOpenTransaction, "an open transaction holds the cleaner back"},
	{v1alpha1.ReasonCleanerDisabled, "the LogCluster has no cleaner workers: set spec.cleaner.workers"},
	{v1alpha1.ReasonMinLagNotReached, "all that is dirty is younger than compaction.minLag"},
	{v1alpha1.ReasonBelowDirtyRatio, "less is dirty than compaction.minDirtyPercent asks for"},
	{v1alpha1.ReasonNothingToReclaim, "the dirty section holds no garbage worth a pass"},
	{v1alpha1.ReasonActiveSegmentOnly, "all that is dirty lies in the active segment"},
	{v1alpha1.ReasonUpToDate, "nothing is dirty"},
}

// setCompaction sets what the status says of cleaning. Before the brokers were asked, what was known before stays.
func (s *topicScope) setCompaction(status *v1alpha1.TopicStatus) {
	switch {
	case s.cluster == nil || !compacts(s.topic, s.cluster):
		status.Compaction = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCompacting)
	case s.report == nil:
		if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCompacting) == nil {
			s.set(status, unknown("the brokers have not been asked yet"))
		}
	default:
		rows := compactionRows(s.report.leaders[s.topic.KafkaName()])
		status.Compaction = summarise(rows)
		s.set(status, compacting(rows, s.report))
	}
}

// compactionRows leaves out partitions whose broker does not know yet that the topic is compacted.
func compactionRows(leaders []report.Partition) []*report.Compaction {
	var rows []*report.Compaction
	for _, leader := range leaders {
		if leader.Compaction != nil {
			rows = append(rows, leader.Compaction)
		}
	}
	return rows
}

// compacting is the condition that the partitions' reasons add up to. It is True only while a pass runs and no partition is
// quarantined; with no row, or with reasons of a newer broker only, it is Unknown rather than a guess.
func compacting(rows []*report.Compaction, from *clusterReport) metav1.Condition {
	if len(rows) == 0 {
		return unknown(fmt.Sprintf("no leader of this topic reported; %d of %d brokers answered", from.answered, from.asked))
	}
	count := map[string]int{}
	for _, row := range rows {
		count[row.Reason]++
	}
	for _, known := range reasons {
		if count[known.reason] == 0 {
			continue
		}
		status := metav1.ConditionFalse
		if known.reason == v1alpha1.ReasonCleaning {
			status = metav1.ConditionTrue
		}
		return metav1.Condition{
			Type: v1alpha1.ConditionCompacting, Status: status, Reason: known.reason,
			Message: fmt.Sprintf("%s (%d of %d partitions)", known.meaning, count[known.reason], len(rows)),
		}
	}
	return unknown(fmt.Sprintf("the brokers give a reason that this operator does not know: %.40q", rows[0].Reason))
}

// unknown is condition Compacting with status Unknown.
func unknown(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionCompacting, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnknown, Message: message,
	}
}

// summarise adds up the partitions of a topic; nil if none reported. Dirty is the largest share, not the mean: one partition
// that is never cleaned would vanish among clean ones. Progress is the mean of those where a pass runs, and absent if there
// is none.
//
// All is rounded to what the API keeps (whole percents, whole seconds): a finer value would differ from the one that was
// read back, and be written anew in every round.
func summarise(rows []*report.Compaction) *v1alpha1.CompactionStatus {
	if len(rows) == 0 {
		return nil
	}
	var dirty, progress float64
	var busiest, running int
	var oldest *float64
	for _, row := range rows {
		dirty = max(dirty, row.DirtyRatio)
		phase := slices.Index(phases, row.Phase)
		busiest = max(busiest, phase)
		if phase >= phaseRunning {
			running++
			progress += row.ProgressRatio
		}
		if row.LastSuccess != nil && (oldest == nil || *row.LastSuccess < *oldest) {
			oldest = row.LastSuccess
		}
	}
	summary := &v1alpha1.CompactionStatus{
		Dirty:       fmt.Sprintf("%d%%", percent(dirty)),
		Reclaimable: reclaimable(rows),
		Phase:       strings.ToUpper(phases[busiest][:1]) + phases[busiest][1:],
	}
	if running > 0 {
		summary.ProgressPercent = new(percent(progress / float64(running)))
	}
	if oldest != nil {
		summary.LastCleaned = &metav1.Time{Time: time.Unix(int64(*oldest), 0)}
	}
	return summary
}

// percent is a ratio as a person reads it. A broker's nonsense stays within 0 to 100; NaN is 0, as what it converts to is
// the machine's choice.
func percent(ratio float64) int32 {
	if math.IsNaN(ratio) {
		return 0
	}
	return int32(math.Round(100 * min(max(ratio, 0), 1)))
}

// reclaimable adds up what a clean would free; nil while any partition does not know, as the sum of the
// others would look like the whole. In bytes.
func reclaimable(rows []*report.Compaction) *resource.Quantity {
	var sum int64
	for _, row := range rows {
		if row.ReclaimableBytes == nil {
			return nil
		}
		sum += *row.ReclaimableBytes
	}
	return resource.NewQuantity(sum, resource.BinarySI)
}
