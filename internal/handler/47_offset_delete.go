package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetDelete (key 47), version 0: forgets offsets of topics that the group does not consume
// (KIP-496). It is never flexible.

// offsetDeleteShape is the request's fields (see shape.go).
var offsetDeleteShape = shape{text(), array(text(), array(fixed(4)))}

func (h *Handler) offsetDelete(ctx context.Context, raw *wire.Request,
	req *kmsg.OffsetDeleteRequest) wire.Reply {
	response := kmsg.NewPtrOffsetDeleteResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	var of []group.TopicPartition
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			of = append(of, group.TopicPartition{Topic: req.Topics[i].Topic,
				Partition: p.Partition})
		}
	}
	errs, err := h.opts.Groups.DeleteOffsets(ctx, req.Group, of)
	response.ErrorCode = result.code(err)
	for i := range req.Topics {
		if err != nil {
			break
		}
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			part := kmsg.NewOffsetDeleteResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, result.code(errs[0])
			errs = errs[1:]
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return reply(response, result)
}
