package summary

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// blockedByTransaction is the key for open transactions in report.Compaction.BlockedBytes.
const blockedByTransaction = "open_transaction"

// transactionOf returns the part of a message that describes the oldest transaction that blocks the
// cleaner in any partition: the transaction's producer, its times, and the bytes that it blocks. It
// returns "" if no broker has reported such a transaction. Sizes are rounded, which keeps the
// message stable while nothing happens.
func transactionOf(rows Rows) string {
	var blocked *report.Partition
	for i := range rows.Replicas {
		row := &rows.Replicas[i]
		if !row.Leader || row.Compaction == nil || row.OldestTransaction == nil ||
			row.Compaction.Reason != v1alpha1.ReasonBlockedByOpenTransaction {
			continue
		}
		if blocked == nil || row.OldestTransaction.Since < blocked.OldestTransaction.Since {
			blocked = row
		}
	}
	if blocked == nil {
		return ""
	}
	oldest, text := blocked.OldestTransaction, &strings.Builder{}
	fmt.Fprintf(text, ": partition %d: transaction of ", blocked.Partition)
	if oldest.TransactionalID == "" {
		fmt.Fprintf(text, "producer %d", oldest.ProducerID)
	} else {
		fmt.Fprintf(text, "%.200s (producer %d)", oldest.TransactionalID, oldest.ProducerID)
	}
	fmt.Fprintf(text, ", open since %s", clockTime(oldest.Since))
	if oldest.Until != nil {
		fmt.Fprintf(text, ", ends by %s", clockTime(*oldest.Until))
	}
	if oldest.Hanging {
		text.WriteString(", hangs (run heartwood transactions find-hanging)")
	}
	held := resource.NewQuantity(roundBytes(blocked.Compaction.BlockedBytes[blockedByTransaction]),
		resource.BinarySI)
	fmt.Fprintf(text, ", holds back %s of cleaning, and read_committed consumers at offset %d", held,
		oldest.FirstOffset)
	return text.String()
}

// clockTime formats a Unix time.
func clockTime(seconds float64) string {
	if t := timeOf(&seconds); t != nil {
		return t.Format(time.RFC3339)
	}
	return "an unknown time"
}
