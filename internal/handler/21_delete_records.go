package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// DeleteRecords (key 21), versions 0-2 (KIP-107): the log start moves up, for good. The leader does
// it; the others follow with their next fetch, and the answer waits for those that are in sync:
// else one of them, elected, could show the records again.
//
//	2  flexible
//
// As in Kafka, offset -1 is the high watermark, a topic that is only compacted is refused with
// POLICY_VIOLATION, and the brokers' own topics are refused.

// deleteRecordsShape is the request's fields (see shape.go).
var deleteRecordsShape = shape{array(text(), array(fixed(4), fixed(8))), fixed(4)}

// offsetHighWatermark asks for all records that consumers could see.
const offsetHighWatermark = -1

// deleteRecords answers partition by partition; an error of one does not touch the others.
func (h *Handler) deleteRecords(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteRecordsRequest) wire.Reply {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrDeleteRecordsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	for i := range req.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, asked := range req.Topics[i].Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition = asked.Partition
			low, err := h.deleteBefore(ctx, raw,
				replica.PartitionID{Topic: topic.Topic, Index: asked.Partition}, asked.Offset)
			part.LowWatermark, part.ErrorCode = low, result.code(err)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return reply(response, result)
}

// deleteBefore returns the lowest log start of the replicas in sync, -1 with an error.
func (h *Handler) deleteBefore(ctx context.Context, raw *wire.Request, id replica.PartitionID,
	offset int64) (low int64, err error) {
	if err := h.authorize(raw, deleteTopic, id.Topic); err != nil {
		return -1, err
	}
	if err := h.writable(); err != nil {
		return -1, err
	}
	log, err := h.opts.Replicas.Leader(id, -1)
	if err != nil {
		return -1, err
	}
	switch {
	case metadata.InternalTopic(id.Topic):
		return -1, fmt.Errorf("%w: %q is the brokers' own", metadata.ErrInvalidTopicName, id.Topic)
	case !log.Settings().Delete:
		return -1, fmt.Errorf(
			"%w: the cleanup.policy of topic %q is compact, so its records go by their keys",
			metadata.ErrPolicy,
			id.Topic,
		)
	case offset == offsetHighWatermark:
		offset = log.HighWatermark()
	case offset < 0:
		return -1, fmt.Errorf("%w: %d", logstore.ErrOffsetOutOfRange, offset)
	}
	if err := log.DeleteBefore(offset); err != nil {
		return -1, err
	}
	return h.opts.Replicas.AwaitLogStart(ctx, id, offset)
}
