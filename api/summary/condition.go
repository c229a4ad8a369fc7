package summary

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// Polled contains the numbers of polled brokers and of responses: 0 <= Responded <= Brokers.
type Polled struct{ Brokers, Responded int }

// Condition returns condition Compacting. Its message summarizes the partitions' reasons in one
// sentence. Its status is True only while a pass is running and no replica is quarantined. The
// status is Unknown in three cases: no leader reported; the amount of garbage, which decides
// whether a pass starts, is not estimated yet; or newer brokers reported only reasons that this
// version does not know.
func Condition(rows Rows, partitions int, polled Polled) metav1.Condition {
	count := map[string]int{}
	leaders := rows.leaders()
	for _, leader := range leaders {
		count[leader.Reason]++
	}
	if failed := quarantined(rows); failed != nil && count[v1alpha1.ReasonQuarantined] == 0 {
		return condition(v1alpha1.ReasonQuarantined,
			reasons[0].Condition+" (on a follower)"+failure(failed))
	}
	if len(leaders) == 0 {
		return Unknown(fmt.Sprintf("No leader of this topic reported; %d of %d brokers responded.",
			polled.Responded, polled.Brokers))
	}
	for _, known := range reasons {
		if count[known.Reason] == 0 {
			continue
		}
		message := fmt.Sprintf("%s (%s)", known.Condition,
			share(known.Reason, count, max(partitions, len(leaders))))
		if known.Reason == v1alpha1.ReasonQuarantined {
			return condition(known.Reason, message+failure(quarantined(rows)))
		}
		if known.Reason == v1alpha1.ReasonBlockedByOpenTransaction {
			message += transactionOf(rows)
		}
		if known.Reason == v1alpha1.ReasonUnknown {
			return Unknown(message + ".")
		}
		return condition(known.Reason, message+".")
	}
	return Unknown(fmt.Sprintf(
		"The brokers report reason %.40q, which this version of the operator does not support; upgrade "+
			"the operator.",
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

// Unknown returns condition Compacting with status Unknown.
func Unknown(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionCompacting, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonUnknown, Message: message,
	}
}

// share describes how many partitions have the reason, have other reasons, or did not report, for
// example "1 of 3 partitions; 2 UpToDate".
func share(reason string, count map[string]int, partitions int) string {
	words := []string{fmt.Sprintf("%d of %d partitions", count[reason], partitions)}
	reported := 0
	for _, n := range count {
		reported += n
	}
	for _, known := range reasons {
		if n := count[known.Reason]; n > 0 && known.Reason != reason {
			words = append(words, fmt.Sprintf("%d %s", n, known.Reason))
		}
	}
	if missing := partitions - reported; missing > 0 {
		words = append(words, fmt.Sprintf("partitions without a report: %d", missing))
	}
	return strings.Join(words, "; ")
}

// quarantined returns the first quarantined replica, ordered by partition and broker id, or nil if
// no replica is quarantined. The fixed order keeps the message stable while nothing changes.
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

// maxErrorBytes is the length to which a message truncates a broker's error.
const maxErrorBytes = 300

// failure returns the part of a message that names the failed replica and its error.
func failure(row *report.Partition) string {
	text := row.Compaction.LastError
	if text == "" {
		text = "see the log of the broker"
	}
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "") + " ..."
	}
	return fmt.Sprintf(": partition %d on broker %d: %s", row.Partition, row.Broker, text)
}
