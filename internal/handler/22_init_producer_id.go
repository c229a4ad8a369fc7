package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// InitProducerId (key 22), versions 0-5: returns a producer id for an idempotent producer (KIP-98).
//
//	2  flexible
//	3  producer id and epoch to continue (KIP-360)
//	4  PRODUCER_FENCED (KIP-588)
//	5  transactions, part 2 (KIP-890)
//
// Without a transactional id the broker stores nothing about a producer. Therefore a producer that
// sends its id and epoch (KIP-360) gets a new id with epoch 0, as in Kafka. Producers normally do
// not send this request to raise their epoch: they raise it themselves, and the leader of a
// partition fences the earlier epoch with INVALID_PRODUCER_EPOCH.
//
// A request with a transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED. Transactions are
// not supported, and this error is fatal for the producers of all clients (ADR 0222). The reason is
// in the log, because the response has no error message.

// initProducerIDShape describes the fields of the request (shape.go).
var initProducerIDShape = shape{text(), fixed(4), fixed(10).from(3)}

func (h *Handler) initProducerID(_ context.Context, raw *wire.Request,
	req *kmsg.InitProducerIDRequest) wire.Reply {
	response := kmsg.NewPtrInitProducerIDResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	id, err := h.producerID(raw, req)
	response.ErrorCode = result.code(err)
	if err != nil {
		response.ProducerID, response.ProducerEpoch = -1, -1
		return reply(response, result)
	}
	response.ProducerID, response.ProducerEpoch = id, 0
	return reply(response, result)
}

func (h *Handler) producerID(raw *wire.Request, req *kmsg.InitProducerIDRequest) (int64, error) {
	if err := h.authorizeProducer(raw, req.TransactionalID); err != nil {
		return -1, err
	}
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		return -1, fmt.Errorf("%w: the transactional id is empty", errInvalidRequest)
	case req.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return -1, fmt.Errorf("%w: producer id %d with producer epoch %d; both or none must be -1",
			errInvalidRequest, req.ProducerID, req.ProducerEpoch)
	case req.TransactionalID != nil:
		return -1, h.refuseTransactions(raw, *req.TransactionalID)
	}
	return h.opts.ProducerID()
}

// authorizeProducer returns nil if the client may use the transactional id. Without a transactional
// id the client must be allowed IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679).
func (h *Handler) authorizeProducer(raw *wire.Request, transactionalID *string) error {
	if transactionalID != nil {
		return h.authorize(raw, writeTransactionalID, *transactionalID)
	}
	err := h.authorize(raw, idempotentWrite, clusterName)
	if err != nil && h.authorize(raw, writeTopic, anyName) == nil {
		return nil
	}
	return err
}
