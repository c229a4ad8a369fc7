package transactions

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// TxnOffsetCommit (key 28), versions 0-6: commits offsets in a transaction (KIP-98).
//
//	2  leader epochs (KIP-320)
//	3  flexible; member, generation and instance (KIP-447)
//	4  TRANSACTION_ABORTABLE (KIP-890)
//	5  adds the group's partition of __consumer_offsets to the transaction (KIP-890)
//	6  topic ids (KIP-1319)
//
// A response without an error means that the offsets are stored on all in-sync replicas. They
// become visible when the transaction is committed.

// TxnOffsetCommitShape describes the fields of the request (api.Shape).
var TxnOffsetCommitShape = api.Shape{
	api.Text(), api.Text(), api.Fixed(10), api.Fixed(4).From(3), api.Text().From(3),
	api.Text().From(3),
	api.Array(api.Text().To(5), api.Fixed(16).From(6),
		api.Array(api.Fixed(12), api.Fixed(4).From(2), api.Text())),
}

// The first TxnOffsetCommit versions whose clients support certain errors or use transaction
// version 2.
const (
	// Older clients crash when they receive COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
	txnCommitLoadingVersion     = 2
	txnCommitAbortableVersion   = 4
	txnCommitImplicitAddVersion = 5
	txnCommitTopicIDVersion     = 6
)

// TxnOffsetCommit commits the offsets of existing partitions. Every other partition gets an error.
func (h *Handler) TxnOffsetCommit(ctx context.Context, raw *wire.Request,
	req *kmsg.TxnOffsetCommitRequest) wire.Reply {
	if err := h.authorizeCommit(raw, req); err != nil {
		return h.txnOffsetCommitResponse(req, nil, nil, err)
	}
	commit := coordinator.TransactionalCommit{
		Commit: group.Commit{Group: req.Group, Member: req.MemberID,
			Instance: api.OrEmpty(req.InstanceID), Generation: req.Generation},
		Transaction: replica.Transaction{ID: req.TransactionalID,
			Add: req.Version >= txnCommitImplicitAddVersion},
		ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
	}
	if req.Version < 3 {
		commit.Generation = -1
	}
	var faults []error // one entry per partition in the request
	commit.Offsets, faults = h.transactionalOffsets(raw, req)
	errs, err := h.commitTransactional(ctx, commit)
	return h.txnOffsetCommitResponse(req, faults, errs, txnCommitError(req.Version, err))
}

// transactionalOffsets returns the offsets for the request's existing partitions, and one error for
// each partition in the request, which is nil if offsets contains the partition.
func (h *Handler) transactionalOffsets(raw *wire.Request,
	req *kmsg.TxnOffsetCommitRequest) (offsets []group.CommitOffset, faults []error) {
	img := h.Image()
	for i := range req.Topics {
		topic, err := h.committedTopic(raw, img, req.Version, &req.Topics[i])
		for _, p := range req.Topics[i].Partitions {
			fault := err
			if fault == nil && (topic == nil || p.Partition < 0 ||
				int(p.Partition) >= len(topic.Partitions)) {
				fault = metadata.ErrTopicNotFound
			}
			if faults = append(faults, fault); fault != nil {
				continue
			}
			epoch := p.LeaderEpoch
			if req.Version < 2 {
				epoch = -1
			}
			offsets = append(offsets, group.CommitOffset{Topic: topic.Name,
				Partition: p.Partition, Offset: group.Offset{Offset: p.Offset, LeaderEpoch: epoch,
					Metadata: api.OrEmpty(p.Metadata), TopicID: topic.ID, ExpireMs: -1}})
		}
	}
	return offsets, faults
}

// committedTopic returns the topic in a request, by its name or, from version 6 on, by its id. The
// topic is nil if no topic has this name and the client is allowed to read it.
func (h *Handler) committedTopic(raw *wire.Request, img *metadata.Image, version int16,
	requested *kmsg.TxnOffsetCommitRequestTopic) (*metadata.Topic, error) {
	if version < txnCommitTopicIDVersion {
		return img.Topic(requested.Topic), h.Authorize(raw, api.ReadTopic, requested.Topic)
	}
	topic := img.TopicByID(requested.TopicID)
	if topic == nil {
		return nil, api.ErrUnknownTopicID
	}
	return topic, h.Authorize(raw, api.ReadTopic, topic.Name)
}

// authorizeCommit authorizes the transaction before the group, and both before the topics, as Kafka
// does: a client without them learns nothing about topics.
func (h *Handler) authorizeCommit(raw *wire.Request, req *kmsg.TxnOffsetCommitRequest) error {
	if err := h.Authorize(raw, api.WriteTransactionalID, req.TransactionalID); err != nil {
		return err
	}
	return h.Authorize(raw, api.ReadGroup, req.Group)
}

func (h *Handler) commitTransactional(ctx context.Context,
	commit coordinator.TransactionalCommit) ([]error, error) {
	if !h.Replicas.Transactional() {
		return nil, api.ErrNoTransactions
	}
	return h.Groups.CommitTransactional(ctx, commit)
}

// txnCommitError returns err, replaced if clients of the given version do not support it.
func txnCommitError(version int16, err error) error {
	switch {
	case err == nil:
		return nil
	case version < txnCommitLoadingVersion && errors.Is(err, coordinator.ErrLoading):
		return coordinator.ErrNotAvailable
	case version < txnCommitAbortableVersion && errors.Is(err, replica.ErrNotInTransaction):
		return fmt.Errorf("%w: %w", logstore.ErrInvalidTxnState, err)
	case version < txnCommitImplicitAddVersion &&
		errors.Is(err, replica.ErrConcurrentTransactions):
		return fmt.Errorf("%w: %w", coordinator.ErrNotAvailable, err)
	}
	return err
}

// txnOffsetCommitResponse returns the response. Its parameters have the same meaning as in
// offsetCommitResponse.
func (h *Handler) txnOffsetCommitResponse(req *kmsg.TxnOffsetCommitRequest, faults, errs []error,
	err error) wire.Reply {
	response, result := kmsg.NewPtrTxnOffsetCommitResponse(), h.Outcome()
	response.Version = req.Version
	for i := range req.Topics {
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			var fault error
			if len(faults) > 0 {
				fault, faults = faults[0], faults[1:]
			}
			switch {
			case fault != nil:
			case err != nil:
				fault = err
			default:
				fault, errs = errs[0], errs[1:]
			}
			part := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, result.Code(fault)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}
