package transactions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// AddPartitionsToTxn (key 24), versions 0-5: adds partitions to a transaction (KIP-98).
//
//	2  PRODUCER_FENCED (KIP-588)
//	3  flexible
//	4  sent by brokers only: several transactions, verification (KIP-890)
//	5  TRANSACTION_ABORTABLE
//
// A client's request adds either all its partitions or none. If one partition is unknown or denied,
// the others get OPERATION_NOT_ATTEMPTED.

// AddPartitionsToTxnShape describes the fields of the request (api.Shape).
var AddPartitionsToTxnShape = api.Shape{
	api.Array(api.Text(), api.Fixed(11), api.PartitionsOfTopics).From(4),
	api.Text().To(3), api.Fixed(10).To(3), api.PartitionsOfTopics.To(3),
}

// addPartitionsResponseShape describes the fields of the response to a broker.
var addPartitionsResponseShape = api.Shape{
	api.Fixed(4), api.Fixed(2), api.Array(api.Text(), api.Array(api.Text(), api.Array(api.Fixed(4),
		api.Fixed(2)))),
}

// The first versions whose clients support certain errors.
const (
	fencedVersion        = 2 // of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn
	initFencedVersion    = 4 // of InitProducerId
	verifyAbortedVersion = 5 // of AddPartitionsToTxn: TRANSACTION_ABORTABLE
)

// fencedError returns err, but replaces PRODUCER_FENCED for clients that do not support it. known
// reports whether the client supports it.
func fencedError(known bool, err error) error {
	if err != nil && !known && isFenced(err) {
		return fmt.Errorf("%w: %w", logstore.ErrInvalidProducerEpoch, err)
	}
	return err
}

func isFenced(err error) bool { return errors.Is(err, transaction.ErrFenced) }

// abortableError returns the error of a verification, replaced if clients of the given version do
// not support it.
func abortableError(version int16, err error) error {
	if version < verifyAbortedVersion && errors.Is(err, replica.ErrNotInTransaction) {
		return fmt.Errorf("%w: %w", transaction.ErrInvalidState, err)
	}
	return err
}

// AddPartitionsToTxn handles an AddPartitionsToTxn request (key 24).
func (h *Handler) AddPartitionsToTxn(ctx context.Context, raw *wire.Request,
	req *kmsg.AddPartitionsToTxnRequest) wire.Reply {
	response, result := kmsg.NewPtrAddPartitionsToTxnResponse(), h.Outcome()
	response.Version = req.Version
	if req.Version >= api.PeerAddVersion {
		h.verifyTransactions(ctx, raw, req, response, &result)
		return api.Reply(response, result)
	}
	errs := h.checkAdded(raw, req)
	err := h.Authorize(raw, api.WriteTransactionalID, req.TransactionalID)
	if err == nil && !anyError(errs) {
		_, err = h.Transactions.Add(ctx, transaction.Add{
			ID:         req.TransactionalID,
			Producer:   transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
			Partitions: addedPartitions(req), Connection: raw.Connection,
		})
	}
	err = fencedError(req.Version >= fencedVersion, err)
	refused := anyError(errs)
	for _, requested := range req.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTopic()
		topic.Topic = requested.Topic
		for _, index := range requested.Partitions {
			refusal := errs[0]
			switch errs = errs[1:]; {
			case err != nil:
				refusal = err
			case refusal == nil && refused:
				refusal = api.ErrNotAttempted
			}
			part := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			part.Partition, part.ErrorCode = index, result.Code(refusal)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

func anyError(errs []error) bool {
	for _, err := range errs {
		if err != nil {
			return true
		}
	}
	return false
}

func addedPartitions(req *kmsg.AddPartitionsToTxnRequest) (all []transaction.Partition) {
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			all = append(all, transaction.Partition{Topic: topic.Topic, Index: index})
		}
	}
	return all
}

// checkAdded returns an error for each partition in the request that does not exist or to which the
// client may not write.
func (h *Handler) checkAdded(raw *wire.Request, req *kmsg.AddPartitionsToTxnRequest) []error {
	var errs []error
	img := h.Image()
	for _, requested := range req.Topics {
		err := h.Authorize(raw, api.WriteTopic, requested.Topic)
		topic := img.Topic(requested.Topic)
		for _, index := range requested.Partitions {
			refusal := err
			if err == nil && (topic == nil || index < 0 || int(index) >= len(topic.Partitions)) {
				refusal = fmt.Errorf("%w: %s-%d", metadata.ErrUnknownPartition, requested.Topic, index)
			}
			errs = append(errs, refusal)
		}
	}
	return errs
}

// verifyTransactions verifies transactions for a partition leader. Verifications run concurrently,
// because each of them may wait until a transaction has ended.
func (h *Handler) verifyTransactions(ctx context.Context, raw *wire.Request,
	req *kmsg.AddPartitionsToTxnRequest, response *kmsg.AddPartitionsToTxnResponse,
	result *api.Outcome) {
	if err := h.Authorize(raw, api.ClusterAction, api.ClusterName); err != nil {
		response.ErrorCode = result.Code(err)
		return
	}
	questions := make([]replica.Verification, len(req.Transactions))
	answers := make([][]error, len(questions))
	var tasks sync.WaitGroup
	for i := range questions {
		questions[i] = verificationOf(&req.Transactions[i])
		if len(questions) == 1 {
			answers[i] = h.Transactions.VerifyHere(ctx, questions[i])
			continue
		}
		tasks.Go(func() { answers[i] = h.Transactions.VerifyHere(ctx, questions[i]) })
	}
	tasks.Wait()
	for i := range questions {
		answered := kmsg.NewAddPartitionsToTxnResponseTransaction()
		answered.TransactionalID = questions[i].TransactionalID
		errs := answers[i]
		for _, requested := range req.Transactions[i].Topics {
			topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			topic.Topic = requested.Topic
			for _, index := range requested.Partitions {
				part := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				part.Partition = index
				part.ErrorCode = result.Code(abortableError(req.Version, errs[0]))
				topic.Partitions, errs = append(topic.Partitions, part), errs[1:]
			}
			answered.Topics = append(answered.Topics, topic)
		}
		response.Transactions = append(response.Transactions, answered)
	}
}

func verificationOf(requested *kmsg.AddPartitionsToTxnRequestTransaction) replica.Verification {
	q := replica.Verification{TransactionalID: requested.TransactionalID,
		ProducerID:    requested.ProducerID,
		ProducerEpoch: requested.ProducerEpoch, Add: !requested.VerifyOnly}
	for _, topic := range requested.Topics {
		for _, index := range topic.Partitions {
			q.Partitions = append(q.Partitions, api.PartitionRef(topic.Topic, index))
		}
	}
	return q
}
