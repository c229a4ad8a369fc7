package transactions

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeTransactions (key 65), version 0: describes transactional ids (KIP-664). Only the
// coordinator of a transactional id can describe it. Topics that the client may not describe are
// omitted.

// DescribeTransactionsShape describes the fields of the request (api.Shape).
var DescribeTransactionsShape = api.Shape{api.PlainArray(api.Text())}

// DescribeTransactions handles a DescribeTransactions request (key 65).
func (h *Handler) DescribeTransactions(ctx context.Context, raw *wire.Request,
	req *kmsg.DescribeTransactionsRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeTransactionsResponse(), h.Outcome()
	response.Version = req.Version
	for _, id := range req.TransactionalIDs {
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID = id
		var described transaction.Description
		err := h.Authorize(raw, api.DescribeTransactionalID, id)
		if err == nil {
			described, err = h.Transactions.Describe(ctx, id)
		}
		if state.ErrorCode = result.Code(err); err == nil {
			h.describeTransaction(raw, &state, &described)
		}
		response.TransactionStates = append(response.TransactionStates, state)
	}
	return api.Reply(response, result)
}

func (h *Handler) describeTransaction(raw *wire.Request,
	state *kmsg.DescribeTransactionsResponseTransactionState, description *transaction.Description) {
	state.State = description.Phase.String()
	state.ProducerID, state.ProducerEpoch = description.Producer.ID, description.Producer.Epoch
	state.TimeoutMillis, state.StartTimestamp = int32(description.Timeout.Milliseconds()), -1
	if !description.Started.IsZero() {
		state.StartTimestamp = description.Started.UnixMilli()
	}
	for _, p := range description.Partitions { // sorted by topic
		if n := len(state.Topics); n == 0 || state.Topics[n-1].Topic != p.Topic {
			if !h.May(raw, api.DescribeTopic, p.Topic) {
				continue
			}
			topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			topic.Topic = p.Topic
			state.Topics = append(state.Topics, topic)
		}
		topic := &state.Topics[len(state.Topics)-1]
		topic.Partitions = append(topic.Partitions, p.Index)
	}
}
