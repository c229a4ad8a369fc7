package summary

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func row(reason string) *report.Compaction {
	return &report.Compaction{Reason: reason,
		Phase: "idle"}
}

func TestConditionHasTheReasonOfHighestPrecedence(t *testing.T) {
	for _, test := range []struct {
		rows    []*report.Compaction
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{nil, metav1.ConditionUnknown, v1alpha1.ReasonUnknown,
			"No leader of this topic reported; 1 of 2 brokers responded."},
		{[]*report.Compaction{row("UpToDate")}, metav1.ConditionFalse, v1alpha1.ReasonUpToDate,
			"The log is clean (1 of 3 partitions; partitions without a report: 2)."},
		{
			[]*report.Compaction{row("UpToDate"), row("Cleaning"), row("Cleaning")},
			metav1.ConditionTrue, v1alpha1.ReasonCleaning,
			"A cleaning pass is running (2 of 3 partitions; 1 UpToDate).",
		},
		{
			[]*report.Compaction{row("Cleaning"),
				{Reason: "Quarantined", LastError: "read 00.log: input/output error"}},
			metav1.ConditionFalse, v1alpha1.ReasonQuarantined,
			"The last cleaning pass failed and is retried with backoff (1 of 3 partitions; 1 Cleaning; partitions without a report: 1): " +
				"partition 1 on broker 0: read 00.log: input/output error",
		},
		{
			[]*report.Compaction{row("ActiveSegmentOnly"), row("BelowDirtyRatio"),
				row("OfAFutureBroker")}, metav1.ConditionFalse,
			v1alpha1.ReasonBelowDirtyRatio,
			"The dirty ratio is below compaction.minDirtyPercent (1 of 3 partitions; 1 ActiveSegmentOnly).",
		},
		{[]*report.Compaction{row("UpToDate"), row("Unknown")}, metav1.ConditionUnknown,
			v1alpha1.ReasonUnknown, "The garbage of the dirty section is not estimated yet " +
				"(1 of 3 partitions; 1 UpToDate; partitions without a report: 1)."},
		{[]*report.Compaction{row("OfAFutureBroker")}, metav1.ConditionUnknown,
			v1alpha1.ReasonUnknown, `"OfAFutureBroker"`},
	} {
		got := Condition(leadersOf(test.rows...), 3, Polled{Brokers: 2, Responded: 1})
		if got.Status != test.status || got.Reason != test.reason ||
			got.Type != v1alpha1.ConditionCompacting {
			t.Errorf("%d rows: got %+v, want %s %s", len(test.rows), got, test.status, test.reason)
		}
		if got.Message != test.message &&
			!(test.reason == v1alpha1.ReasonUnknown &&
				strings.Contains(got.Message, test.message)) {
			t.Errorf("%d rows: got message %q, want %q", len(test.rows), got.Message, test.message)
		}
	}
}

// TestOpenTransactionIsDescribed checks the message about the oldest transaction. The message names
// the transaction's producer, its end, and the bytes that it blocks. Without a report of the
// coordinator, the message names the producer id and says whether the transaction hangs.
func TestOpenTransactionIsDescribed(t *testing.T) {
	blocked := func() *report.Compaction {
		return &report.Compaction{Reason: v1alpha1.ReasonBlockedByOpenTransaction, Phase: "idle",
			BlockedBytes: map[string]int64{"open_transaction": 1<<30 + 1234}}
	}
	rows := leadersOf(blocked(), blocked(), row("UpToDate"))
	rows.Replicas[0].OldestTransaction = &report.Transaction{ProducerID: 7, FirstOffset: 9,
		Since: 1767268900}
	rows.Replicas[1].OldestTransaction = &report.Transaction{ProducerID: 225179, FirstOffset: 1042,
		Since: 1767268800.5, TransactionalID: "payments-7", Until: new(1767269700.5)}
	rows.Replicas[2].OldestTransaction = &report.Transaction{ProducerID: 1, Since: 1}
	const head = "An open transaction blocks compaction (2 of 3 partitions; 1 UpToDate): " +
		"partition 1: transaction of "
	const tail = ", holds back 1Gi of cleaning, and read_committed consumers at offset 1042."
	want := head + "payments-7 (producer 225179), open since 2026-01-01T12:00:00Z, " +
		"ends by 2026-01-01T12:15:00Z" + tail
	if got := Condition(rows, 3, Polled{}); got.Message != want {
		t.Errorf("got  %s\nwant %s", got.Message, want)
	}
	rows.Replicas[1].OldestTransaction.TransactionalID = ""
	rows.Replicas[1].OldestTransaction.Until = nil
	for hangs, text := range map[bool]string{
		false: "", true: ", hangs (run heartwood transactions find-hanging)"} {
		rows.Replicas[1].OldestTransaction.Hanging = hangs
		want = head + "producer 225179, open since 2026-01-01T12:00:00Z" + text + tail
		if got := Condition(rows, 3, Polled{}); got.Message != want {
			t.Errorf("got  %s\nwant %s", got.Message, want)
		}
	}
}

// TestQuarantinedFollowerIsReported checks that a quarantined follower changes the condition
// although no leader is quarantined. The reason is that tombstones stay on all replicas while one
// replica is not compacted.
func TestQuarantinedFollowerIsReported(t *testing.T) {
	rows := leadersOf(row("UpToDate"), row("Cleaning"))
	for _, broker := range []int32{7, 4} {
		rows.Replicas = append(rows.Replicas,
			report.Partition{Broker: broker, Partition: 1, Compaction: &report.Compaction{
				Reason: "Quarantined", LastError: strings.Repeat("x", 1000),
			}})
	}
	got := Condition(rows, 2, Polled{3, 3})
	if got.Reason != v1alpha1.ReasonQuarantined || got.Status != metav1.ConditionFalse ||
		!strings.Contains(got.Message, "partition 1 on broker 4: xxx") {
		t.Errorf("got %+v, want reason Quarantined and the error of broker 4", got)
	}
	if len(got.Message) > 500 {
		t.Errorf("got a message of %d bytes, want at most 500", len(got.Message))
	}
}

func TestEveryReasonHasPrecedenceAndMeaning(t *testing.T) {
	var known []string
	for _, r := range reasons {
		known = append(known, r.Reason)
		if r.Condition == "" {
			t.Errorf("%s has no meaning", r.Reason)
		}
	}
	for _, want := range []string{
		v1alpha1.ReasonUpToDate, v1alpha1.ReasonCleaning, v1alpha1.ReasonQueued,
		v1alpha1.ReasonBelowDirtyRatio,
		v1alpha1.ReasonNothingToReclaim, v1alpha1.ReasonActiveSegmentOnly,
		v1alpha1.ReasonMinLagNotReached,
		v1alpha1.ReasonBlockedByOpenTransaction, v1alpha1.ReasonQuarantined,
		v1alpha1.ReasonCleanerDisabled,
	} {
		if !slices.Contains(known, want) {
			t.Errorf("reason %s has no precedence", want)
		}
	}
}
