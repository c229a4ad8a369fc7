package transactions

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// ListTransactions (key 66), versions 0-2: lists the transactional ids that this broker coordinates
// (KIP-664). Ids that the client may not describe are omitted.
//
//	1  minimum time that a transaction has been open (KIP-994)
//	2  pattern of the transactional id (KIP-1152)
//
// Requests between brokers contain a private tagged field (transactions_known.go).

// ListTransactionsShape describes the fields of the request (api.Shape).
var ListTransactionsShape = api.Shape{
	api.PlainArray(api.Text()), api.PlainArray(api.Fixed(8)), api.Fixed(8).From(1), api.Text().From(2),
}

// ListTransactions handles a ListTransactions request (key 66).
func (h *Handler) ListTransactions(ctx context.Context, raw *wire.Request,
	req *kmsg.ListTransactionsRequest) wire.Reply {
	if asksAllProducers(req) {
		return h.knownProducers(ctx, raw, req)
	}
	response, result := kmsg.NewPtrListTransactionsResponse(), h.Outcome()
	response.Version = req.Version
	filter, err := transactionFilter(req)
	var listed []transaction.Description
	if err == nil {
		listed, err = h.Transactions.List(ctx, filter)
	}
	response.ErrorCode = result.Code(err)
	for _, name := range req.StateFilters {
		if !slices.Contains(transaction.Phases(), name) {
			response.UnknownStateFilters = append(response.UnknownStateFilters, name)
		}
	}
	for i := range listed {
		if !h.May(raw, api.DescribeTransactionalID, listed[i].ID) {
			continue
		}
		state := kmsg.NewListTransactionsResponseTransactionState()
		state.TransactionalID, state.ProducerID = listed[i].ID, listed[i].Producer.ID
		state.TransactionState = listed[i].Phase.String()
		response.TransactionStates = append(response.TransactionStates, state)
	}
	return api.Reply(response, result)
}

func transactionFilter(req *kmsg.ListTransactionsRequest) (transaction.Filter, error) {
	f := transaction.Filter{Phases: req.StateFilters, Producers: req.ProducerIDFilters, OpenFor: -1}
	if req.Version >= 1 && req.DurationFilterMillis >= 0 {
		f.OpenFor = time.Duration(req.DurationFilterMillis) * time.Millisecond
	}
	if req.Version >= 2 && req.TransactionalIDPattern != nil && *req.TransactionalIDPattern != "" {
		pattern, err := regexp.Compile("^(?:" + *req.TransactionalIDPattern + ")$")
		if err != nil {
			return f, fmt.Errorf("%w: %w", consumer.ErrInvalidExpression, err)
		}
		f.Pattern = pattern
	}
	return f, nil
}
