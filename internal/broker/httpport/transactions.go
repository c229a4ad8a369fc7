package httpport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/replica"
)

// ErrNoOpenTransaction means that no transaction can be aborted: the transactional id has no open
// transaction, or no open transaction begins at the given offset.
var ErrNoOpenTransaction = errors.New("no open transaction")

// TransactionFilter selects the transactions in a report. A field with the zero value selects all
// transactions.
type TransactionFilter struct {
	States    []string      // states of transactional ids
	OlderThan time.Duration // minimum age of the open transaction
}

// Transactions reports on transactions and aborts them; Brokers implements it.
type Transactions interface {
	// Transactions returns the brokers' transactional ids and open transactions.
	Transactions(context.Context, time.Time, TransactionFilter) (report.Transactions, error)
	// AbortTransaction aborts the ongoing transaction of a transactional id.
	AbortTransaction(ctx context.Context, id string) (report.Aborted, error)
	// AbortOpen aborts the open transaction that begins at firstOffset of a partition.
	AbortOpen(ctx context.Context, key report.TopicPartition, firstOffset int64) (report.Aborted,
		error)
}

// handleTransactions adds the transaction endpoints.
func handleTransactions(mux *http.ServeMux, brokers func() Transactions) {
	mux.HandleFunc("GET /api/v1/transactions", func(w http.ResponseWriter, r *http.Request) {
		filter := TransactionFilter{States: r.URL.Query()["state"]}
		if text := r.URL.Query().Get("olderThan"); text != "" {
			var err error
			if filter.OlderThan, err = time.ParseDuration(text); err != nil {
				refuseParameter(w, "olderThan", text, "a duration such as 15m")
				return
			}
		}
		answer, err := brokers().Transactions(r.Context(), time.Now(), filter)
		respondTransaction(w, answer, err)
	})
	mux.HandleFunc("POST /api/v1/transactions/{id}/abort",
		func(w http.ResponseWriter, r *http.Request) {
			answer, err := brokers().AbortTransaction(r.Context(), r.PathValue("id"))
			respondTransaction(w, answer, err)
		})
	mux.HandleFunc("POST /api/v1/topics/{topic}/abort-transaction",
		func(w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			partition, err := strconv.ParseInt(query.Get("partition"), 10, 32)
			if err != nil {
				refuseParameter(w, "partition", query.Get("partition"), "a number")
				return
			}
			offset, err := strconv.ParseInt(query.Get("firstOffset"), 10, 64)
			if err != nil {
				refuseParameter(w, "firstOffset", query.Get("firstOffset"), "a number")
				return
			}
			answer, err := brokers().AbortOpen(r.Context(), report.TopicPartition{
				Topic: r.PathValue("topic"), Partition: int32(partition)}, offset)
			respondTransaction(w, answer, err)
		})
}

func refuseParameter(w http.ResponseWriter, name, value, want string) {
	respond(w, http.StatusBadRequest, report.Failure{Reason: "BadRequest",
		Error: fmt.Sprintf("%s=%q is not %s", name, value, want)})
}

// transactionFailures maps errors of the transaction endpoints to responses. The last row applies
// to all other errors.
var transactionFailures = []struct {
	err    error
	code   int
	reason string
}{
	{ErrStarting, http.StatusServiceUnavailable, "NotReady"},
	{coordinator.ErrLoading, http.StatusServiceUnavailable, "NotReady"},
	{coordinator.ErrNotAvailable, http.StatusServiceUnavailable, "NotReady"},
	{coordinator.ErrInvalidTransactionalID, http.StatusBadRequest, "BadRequest"},
	{transaction.ErrNotFound, http.StatusNotFound, "UnknownTransactionalId"},
	{coordinator.ErrNotCoordinator, http.StatusMisdirectedRequest, "Misdirected"},
	{replica.ErrUnknownPartition, http.StatusNotFound, "UnknownPartition"},
	{replica.ErrNotLeader, http.StatusMisdirectedRequest, "Misdirected"},
	{ErrNoOpenTransaction, http.StatusConflict, "NoOpenTransaction"},
	{nil, http.StatusInternalServerError, "Failed"},
}

func respondTransaction(w http.ResponseWriter, answer any, err error) {
	if err == nil {
		respond(w, http.StatusOK, answer)
		return
	}
	for _, known := range transactionFailures {
		if known.err == nil || errors.Is(err, known.err) {
			respond(w, known.code, report.Failure{Error: err.Error(), Reason: known.reason})
			return
		}
	}
}
