package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/wire"
)

// EndTxn (key 26), versions 0-5: commits or aborts a transaction (KIP-98). It is answered once the
// outcome is decided, before the markers are written.
//
//	2  PRODUCER_FENCED (KIP-588)
//	3  flexible
//	5  transaction version 2: returns the producer id and the epoch of the next transaction (KIP-890)

// endTxnShape describes the fields of the request (shape.go).
var endTxnShape = shape{text(), fixed(11)}

// endBumpVersion is the first version of EndTxn that clients of transaction version 2 send.
const endBumpVersion = 5

func (h *Handler) endTxn(ctx context.Context, raw *wire.Request,
	req *kmsg.EndTxnRequest) wire.Reply {
	response, result := kmsg.NewPtrEndTxnResponse(), h.outcome()
	response.Version = req.Version
	err := h.authorize(raw, writeTransactionalID, req.TransactionalID)
	next := transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}
	if err == nil {
		end := transaction.End{
			ID: req.TransactionalID, Commit: req.Commit, Connection: raw.Connection,
			Producer: transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		}
		if req.Version >= endBumpVersion {
			end.Version = transaction.EpochBumpVersion
		}
		next, err = h.opts.Transactions.End(ctx, end)
	}
	response.ErrorCode = result.code(fencedError(req.Version >= fencedVersion, err))
	response.ProducerID, response.ProducerEpoch = -1, -1
	if err == nil {
		response.ProducerID, response.ProducerEpoch = next.ID, next.Epoch
	}
	return reply(response, result)
}
