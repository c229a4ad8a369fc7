package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetDelete (key 47), version 0 (KIP-496): deletes offsets of topics that the group does not
// subscribe to. The version is not flexible.

// OffsetDeleteShape describes the fields of the request (api.Shape).
var OffsetDeleteShape = api.Shape{api.Text(), api.Array(api.Text(), api.Array(api.Fixed(4)))}

// OffsetDelete handles an OffsetDelete request (key 47).
func (h *Handler) OffsetDelete(ctx context.Context, raw *wire.Request,
	req *kmsg.OffsetDeleteRequest) wire.Reply {
	response := kmsg.NewPtrOffsetDeleteResponse()
	response.Version = req.Version
	result := h.Outcome()
	denied := map[string]error{}
	var partitions []group.TopicPartition
	for i := range req.Topics {
		if err := h.Authorize(raw, api.ReadTopic, req.Topics[i].Topic); err != nil {
			denied[req.Topics[i].Topic] = err
			continue
		}
		for _, p := range req.Topics[i].Partitions {
			partitions = append(partitions, group.TopicPartition{Topic: req.Topics[i].Topic,
				Partition: p.Partition})
		}
	}
	var errs []error
	err := h.Authorize(raw, api.DeleteGroup, req.Group)
	if err == nil {
		errs, err = h.Groups.DeleteOffsets(ctx, req.Group, partitions)
	}
	response.ErrorCode = result.Code(err)
	for i := range req.Topics {
		if err != nil {
			break
		}
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			part := kmsg.NewOffsetDeleteResponseTopicPartition()
			fault := denied[topic.Topic]
			if fault == nil {
				fault, errs = errs[0], errs[1:]
			}
			part.Partition, part.ErrorCode = p.Partition, result.Code(fault)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}
