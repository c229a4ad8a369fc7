package summary

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// reasons of condition Compacting, by how much a user wants to know them: the first that any
// partition gives is the topic's. What a user must act upon or wait for comes before what explains
// why nothing is done. Unknown is not here: no broker gives it.
var reasons = []struct{ reason, meaning string }{
	{v1alpha1.ReasonQuarantined, "the last pass failed, and is tried again with back-off"},
	{v1alpha1.ReasonCleaning, "a pass runs"},
	{v1alpha1.ReasonQueued, "a pass is due and waits for a worker"},
	{v1alpha1.ReasonBlockedByOpenTransaction, "an open transaction holds the cleaner back"},
	{v1alpha1.ReasonCleanerDisabled,
		"the LogCluster has no cleaner workers: set spec.cleaner.workers"},
	{v1alpha1.ReasonMinLagNotReached, "all that is dirty is younger than compaction.minLag"},
	{v1alpha1.ReasonBelowDirtyRatio, "less is dirty than compaction.minDirtyPercent asks for"},
	{v1alpha1.ReasonNothingToReclaim, "the dirty section holds no garbage worth a pass"},
	{v1alpha1.ReasonActiveSegmentOnly, "all that is dirty lies in the active segment"},
	{v1alpha1.ReasonUpToDate, "nothing is dirty"},
}

// Asked is how many brokers were asked, and how many answered; 0 <= Answered <= Brokers.
type Asked struct{ Brokers, Answered int }

// Condition is condition Compacting: what the partitions' reasons add up to, in a sentence. It is
// True only while a pass runs and no replica is quarantined; with no row, or with reasons of a
// newer broker only, it is Unknown rather than a guess.
func Condition(rows Rows, partitions int, from Asked) metav1.Condition {
	count := map[string]int{}
	leaders := rows.leaders()
	for _, leader := range leaders {
		count[leader.Reason]++
	}
	if failed := quarantined(rows); failed != nil && count[v1alpha1.ReasonQuarantined] == 0 {
		return condition(v1alpha1.ReasonQuarantined,
			reasons[0].meaning+" (a copy of a partition)"+failure(failed))
	}
	if len(leaders) == 0 {
		return Unknown(fmt.Sprintf("no leader of this topic reported; %d of %d brokers answered",
			from.Answered, from.Brokers))
	}
	for _, known := range reasons {
		if count[known.reason] == 0 {
			continue
		}
		message := fmt.Sprintf("%s (%s)", known.meaning,
			share(known.reason, count, max(partitions, len(leaders))))
		if known.reason == v1alpha1.ReasonQuarantined {
			message += failure(quarantined(rows))
		}
		return condition(known.reason, message)
	}
	return Unknown(fmt.Sprintf("the brokers give a reason that this operator does not know: %.40q",
		leaders[0].Reason))
}

func condition(reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonCleaning {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: v1alpha1.ConditionCompacting, Status: status, Reason: reason,
		Message: message}
}

// Unknown is condition Compacting with status Unknown.
func Unknown(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionCompacting, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonUnknown, Message: message,
	}
}

// share tells how many partitions are in the state that the condition names, and in which the
// others are: "1 of 3 partitions; 2 UpToDate".
func share(reason string, count map[string]int, partitions int) string {
	words := []string{fmt.Sprintf("%d of %d partitions", count[reason], partitions)}
	reported := 0
	for _, n := range count {
		reported += n
	}
	for _, known := range reasons {
		if n := count[known.reason]; n > 0 && known.reason != reason {
			words = append(words, fmt.Sprintf("%d %s", n, known.reason))
		}
	}
	if silent := partitions - reported; silent > 0 {
		words = append(words, fmt.Sprintf("%d did not report", silent))
	}
	return strings.Join(words, "; ")
}

// quarantined finds the first replica whose last pass failed, so that the message stays the same
// while nothing changes.
func quarantined(rows Rows) *report.Partition {
	var first *report.Partition
	for i, row := range rows.Replicas {
		if row.Compaction == nil || row.Compaction.Reason != v1alpha1.ReasonQuarantined {
			continue
		}
		if first == nil || slices.Compare([]int32{row.Partition, row.Broker},
			[]int32{first.Partition, first.Broker}) < 0 {
			first = &rows.Replicas[i]
		}
	}
	return first
}

// errorBytesMax is how much of a broker's error a message quotes.
const errorBytesMax = 300

// failure says what failed, where.
func failure(row *report.Partition) string {
	text := row.Compaction.LastError
	if text == "" {
		text = "see the broker's log"
	}
	if len(text) > errorBytesMax {
		text = strings.ToValidUTF8(text[:errorBytesMax], "") + " ..."
	}
	return fmt.Sprintf(": partition %d on broker %d: %s", row.Partition, row.Broker, text)
}
