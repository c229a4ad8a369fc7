package data

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Produce versions that matter for transactional producers (KIP-890).
const (
	// abortableVersion is the first version whose clients support the error TRANSACTION_ABORTABLE.
	abortableVersion = 11
	// implicitAddVersion is the first version in which a batch adds its partition to the transaction.
	// Clients use it with transaction version 2.
	implicitAddVersion = 12
)

// isTransactional reports whether the partition's batch belongs to a transaction.
func isTransactional(part *producePartition) bool {
	b, _, err := record.Next(part.records)
	return err == nil && b.Transactional() && !b.Control()
}

// checkTransactional checks the rules for the transactional batches in a request. Unlike Kafka, it
// refuses them if acks is not -1. Otherwise the leader could acknowledge a batch and lose it in a
// failover, and the transaction could then be committed without it.
func (h *Handler) checkTransactional(req *wire.Request, p *produceRequest) error {
	if p.transactionalID != nil {
		if err := h.Authorize(req, api.WriteTransactionalID, *p.transactionalID); err != nil {
			return err
		}
	}
	switch {
	case !h.Replicas.Transactional():
		return api.ErrNoTransactions
	case p.transactionalID == nil:
		return fmt.Errorf("%w: the request has a transactional batch and no transactional id",
			api.ErrTransactionalIDAuthorization)
	case p.acks != replica.AcksAll:
		return fmt.Errorf("%w: %d; transactional batches need -1", api.ErrInvalidAcks, p.acks)
	}
	return nil
}

// transactionError replaces the errors of KIP-890 for clients whose Produce version does not
// support them.
func transactionError(version int16, err error) error {
	switch {
	case err == nil:
		return nil
	case version < abortableVersion && errors.Is(err, replica.ErrNotInTransaction):
		return fmt.Errorf("%w: %w", logstore.ErrInvalidTxnState, err)
	case version < implicitAddVersion && errors.Is(err, replica.ErrConcurrentTransactions):
		return fmt.Errorf("%w: %w", replica.ErrNotEnoughReplicas, err)
	}
	return err
}
