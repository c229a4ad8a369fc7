package transactions

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// EndTxn (key 26), versions 0-5: commits or aborts a transaction (KIP-98). The response is sent
// when the outcome is decided, before the markers are written.
//
//	2  PRODUCER_FENCED (KIP-588)
//	3  flexible
//	5  transaction version 2: returns the producer id and the epoch of the next transaction (KIP-890)

// EndTxnShape describes the fields of the request (api.Shape).
var EndTxnShape = api.Shape{api.Text(), api.Fixed(11)}

// endBumpVersion is the first EndTxn version that clients use with transaction version 2.
const endBumpVersion = 5

// EndTxn handles an EndTxn request (key 26).
func (h *Handler) EndTxn(ctx context.Context, raw *wire.Request,
	req *kmsg.EndTxnRequest) wire.Reply {
	response, result := kmsg.NewPtrEndTxnResponse(), h.Outcome()
	response.Version = req.Version
	err := h.Authorize(raw, api.WriteTransactionalID, req.TransactionalID)
	next := transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}
	if err == nil {
		end := transaction.End{
			ID: req.TransactionalID, Commit: req.Commit, Connection: raw.Connection,
			Producer: transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		}
		if req.Version >= endBumpVersion {
			end.Version = transaction.EpochBumpVersion
		}
		next, err = h.Transactions.End(ctx, end)
	}
	response.ErrorCode = result.Code(fencedError(req.Version >= fencedVersion, err))
	response.ProducerID, response.ProducerEpoch = -1, -1
	if err == nil {
		response.ProducerID, response.ProducerEpoch = next.ID, next.Epoch
	}
	return api.Reply(response, result)
}
