package transactions

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// InitProducerId (key 22), versions 0-5: returns a producer id for an idempotent or transactional
// producer (KIP-98).
//
//	2  flexible
//	3  producer id and epoch to continue (KIP-360)
//	4  PRODUCER_FENCED (KIP-588)
//	5  transactions, part 2 (KIP-890)
//
// The broker stores nothing about a producer without a transactional id. So if such a producer
// sends its id and epoch (KIP-360), it gets a new id with epoch 0, as in Kafka. Idempotent
// producers normally raise their epoch themselves, without this request, and partition leaders
// fence the earlier epoch with INVALID_PRODUCER_EPOCH.
//
// A request with a transactional id is handled by the id's coordinator, which fences earlier
// instances of the producer and aborts their transaction.

// InitProducerIDShape describes the fields of the request (api.Shape).
var InitProducerIDShape = api.Shape{api.Text(), api.Fixed(4), api.Fixed(10).From(3)}

// InitProducerID handles an InitProducerId request (key 22).
func (h *Handler) InitProducerID(ctx context.Context, raw *wire.Request,
	req *kmsg.InitProducerIDRequest) wire.Reply {
	response := kmsg.NewPtrInitProducerIDResponse()
	response.Version = req.Version
	result := h.Outcome()
	producer, err := h.producer(ctx, raw, req)
	err = fencedError(req.Version >= initFencedVersion, err)
	response.ErrorCode = result.Code(err)
	if err != nil {
		response.ProducerID, response.ProducerEpoch = -1, -1
		return api.Reply(response, result)
	}
	response.ProducerID, response.ProducerEpoch = producer.ID, producer.Epoch
	return api.Reply(response, result)
}

func (h *Handler) producer(ctx context.Context, raw *wire.Request,
	req *kmsg.InitProducerIDRequest) (producer transaction.Producer, err error) {
	if err := h.authorizeProducer(raw, req.TransactionalID); err != nil {
		return producer, err
	}
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		return producer, coordinator.ErrInvalidTransactionalID
	case req.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return producer, fmt.Errorf(
			"%w: producer id %d with producer epoch %d; both or none must be -1",
			api.ErrInvalidRequest, req.ProducerID, req.ProducerEpoch)
	case req.TransactionalID == nil:
		producer.ID, err = h.ProducerID()
		return producer, err
	}
	expected := transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}
	if req.Version >= 3 {
		expected = transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	return h.Transactions.Init(ctx, transaction.Init{
		ID: *req.TransactionalID, Expected: expected, Connection: raw.Connection,
		Timeout: time.Duration(req.TransactionTimeoutMillis) * time.Millisecond,
	})
}

// authorizeProducer returns nil if the client may use the transactional id. Without a transactional
// id, the client needs IDEMPOTENT_WRITE on the cluster or WRITE on any topic (KIP-679).
func (h *Handler) authorizeProducer(raw *wire.Request, transactionalID *string) error {
	if transactionalID != nil {
		return h.Authorize(raw, api.WriteTransactionalID, *transactionalID)
	}
	if h.May(raw, api.IdempotentWrite, api.ClusterName) || h.May(raw, api.WriteTopic, api.AnyName) {
		return nil
	}
	return h.Authorize(raw, api.IdempotentWrite, api.ClusterName)
}
