package handler

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/wire"
)

// ListTransactions (key 66), versions 0-2: lists the transactional ids that this broker coordinates
// (KIP-664). Ids that the client may not describe are left out.
//
//	1  duration: only transactions that have been open for at least that long (KIP-994)
//	2  pattern of the transactional id (KIP-1152)
//
// Brokers ask each other with a private tagged field (transactions_known.go).

// listTransactionsShape describes the fields of the request (shape.go).
var listTransactionsShape = shape{
	plainArray(text()), plainArray(fixed(8)), fixed(8).from(1), text().from(2),
}

func (h *Handler) listTransactions(ctx context.Context, raw *wire.Request,
	req *kmsg.ListTransactionsRequest) wire.Reply {
	if asksAllProducers(req) {
		return h.knownProducers(ctx, raw, req)
	}
	response, result := kmsg.NewPtrListTransactionsResponse(), h.outcome()
	response.Version = req.Version
	filter, err := transactionFilter(req)
	var listed []transaction.Description
	if err == nil {
		listed, err = h.opts.Transactions.List(ctx, filter)
	}
	response.ErrorCode = result.code(err)
	for _, name := range req.StateFilters {
		if !slices.Contains(transaction.Phases(), name) {
			response.UnknownStateFilters = append(response.UnknownStateFilters, name)
		}
	}
	for i := range listed {
		if !h.may(raw, describeTransactionalID, listed[i].ID) {
			continue
		}
		state := kmsg.NewListTransactionsResponseTransactionState()
		state.TransactionalID, state.ProducerID = listed[i].ID, listed[i].Producer.ID
		state.TransactionState = listed[i].Phase.String()
		response.TransactionStates = append(response.TransactionStates, state)
	}
	return reply(response, result)
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
