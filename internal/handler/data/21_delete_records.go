package data

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// DeleteRecords (key 21), versions 0-2 (KIP-107): raises the log start offsets of partitions. The
// leader raises its log start offset first, and followers raise theirs with their next fetch. The
// request waits for the in-sync followers, because otherwise one of them could become leader and
// return the deleted records.
//
//	2  flexible
//
// As in Kafka, offset -1 means the high watermark. If a topic's cleanup policy is only compact, the
// request is rejected with POLICY_VIOLATION. Requests for internal topics are rejected too.

// DeleteRecordsShape describes the fields of the request (api.Shape).
var DeleteRecordsShape = api.Shape{api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(8))),
	api.Fixed(4)}

// offsetHighWatermark is the offset in a request that deletes all records below the high watermark.
const offsetHighWatermark = -1

// DeleteRecords handles a DeleteRecords request. An error in one partition does not affect the
// others.
func (h *Handler) DeleteRecords(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteRecordsRequest) wire.Reply {
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrDeleteRecordsResponse()
	response.Version = req.Version
	result := h.Outcome()
	for i := range req.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, requested := range req.Topics[i].Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition = requested.Partition
			low, err := h.deleteBefore(ctx, raw,
				replica.PartitionID{Topic: topic.Topic, Index: requested.Partition},
				requested.Offset)
			part.LowWatermark, part.ErrorCode = low, result.Code(err)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

// deleteBefore deletes a partition's records below an offset. It returns the lowest log start
// offset of the in-sync replicas, or -1 and an error.
func (h *Handler) deleteBefore(ctx context.Context, raw *wire.Request, id replica.PartitionID,
	offset int64) (low int64, err error) {
	if err := h.Authorize(raw, api.DeleteTopic, id.Topic); err != nil {
		return -1, err
	}
	if err := api.Writable(h.Image()); err != nil {
		return -1, err
	}
	log, err := h.Replicas.Leader(id, -1)
	if err != nil {
		return -1, err
	}
	switch {
	case metadata.InternalTopic(id.Topic):
		return -1, fmt.Errorf("%w: %q is an internal topic", metadata.ErrInvalidTopicName, id.Topic)
	case !log.Settings().Delete:
		return -1, fmt.Errorf(
			"%w: topic %q has cleanup.policy compact, so only the cleaner removes records",
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
	return h.Replicas.AwaitLogStart(ctx, id, offset)
}
