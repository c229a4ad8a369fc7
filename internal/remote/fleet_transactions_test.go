package remote

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestFleetAsksAllBrokersForTransactions checks that a fleet that knows only one broker also sends
// requests to the brokers that the response names. A fleet that may not discover brokers reports
// that the others are missing.
func TestFleetAsksAllBrokersForTransactions(t *testing.T) {
	address, _ := twoBrokers(t)
	all, unanswered := NewFleet(&Client{}, []string{address}, true).Transactions(t.Context())
	if len(all.TransactionalIDs) != 2 || len(all.Open) != 3 || len(unanswered) > 0 ||
		all.Complete() != nil {
		t.Errorf("got %+v, without %v", all, unanswered)
	}
	all, unanswered = NewFleet(&Client{}, []string{address, "127.0.0.1:1"}, false).Transactions(
		t.Context())
	if len(all.TransactionalIDs) != 1 || len(unanswered) != 1 ||
		unanswered[0].Address != "127.0.0.1:1" || all.Complete() == nil {
		t.Errorf("got %+v, without %v", all, unanswered)
	}
}

// TestFleetAbortsTransactions checks that the coordinator aborts the transaction of a transactional
// id, and that the leader aborts a transaction that no coordinator knows.
func TestFleetAbortsTransactions(t *testing.T) {
	address, changes := twoBrokers(t)
	fleet := NewFleet(&Client{}, []string{address}, true)
	if _, err := fleet.AbortTransaction(t.Context(), "b/c"); err != nil {
		t.Error(err)
	}
	if _, err := fleet.AbortHanging(t.Context(), orders0, 9); err != nil {
		t.Error(err)
	}
	want := []string{"/api/v1/transactions/b%2Fc/abort",
		"/api/v1/topics/orders/abort-transaction?firstOffset=9&partition=0"}
	if !slices.Equal(*changes, want) {
		t.Errorf("got %q, want %q", *changes, want)
	}
	for offset, want := range map[int64]error{7: ErrOwned, 8: ErrUnknownTransaction} {
		if _, err := fleet.AbortHanging(t.Context(), orders0, offset); !errors.Is(err, want) {
			t.Errorf("offset %d: got %v, want %v", offset, err, want)
		}
	}
	if _, err := fleet.AbortTransaction(t.Context(), "x"); !errors.Is(err,
		ErrUnknownTransactionalID) {
		t.Errorf("got %v, want ErrUnknownTransactionalID", err)
	}
	incomplete := NewFleet(&Client{}, []string{address}, false)
	if _, err := incomplete.AbortHanging(t.Context(), report.TopicPartition{Topic: "orders"},
		9); err == nil || len(*changes) != 2 {
		t.Errorf("a transaction was aborted although a coordinator may know it: %v", err)
	}
}
