package transactions

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// AddOffsetsToTxn (key 25), versions 0-4: adds a group's partition of __consumer_offsets to a
// transaction (KIP-98). Clients that use transaction version 2 do not send it.
//
//	2  PRODUCER_FENCED (KIP-588)
//	3  flexible

// AddOffsetsToTxnShape describes the fields of the request (api.Shape).
var AddOffsetsToTxnShape = api.Shape{api.Text(), api.Fixed(10), api.Text()}

// AddOffsetsToTxn handles an AddOffsetsToTxn request (key 25).
func (h *Handler) AddOffsetsToTxn(ctx context.Context, raw *wire.Request,
	req *kmsg.AddOffsetsToTxnRequest) wire.Reply {
	response, result := kmsg.NewPtrAddOffsetsToTxnResponse(), h.Outcome()
	response.Version = req.Version
	err := fencedError(req.Version >= fencedVersion, h.addOffsets(ctx, raw, req))
	response.ErrorCode = result.Code(err)
	return api.Reply(response, result)
}

func (h *Handler) addOffsets(ctx context.Context, raw *wire.Request,
	req *kmsg.AddOffsetsToTxnRequest) error {
	if err := h.Authorize(raw, api.WriteTransactionalID, req.TransactionalID); err != nil {
		return err
	}
	if err := h.Authorize(raw, api.ReadGroup, req.Group); err != nil {
		return err
	}
	index, err := h.Groups.Partition(ctx, req.Group)
	if err != nil {
		return err
	}
	_, err = h.Transactions.Add(ctx, transaction.Add{
		ID:         req.TransactionalID,
		Producer:   transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions: []transaction.Partition{{Topic: coordinator.OffsetsTopic, Index: index}},
		Connection: raw.Connection,
	})
	return err
}
