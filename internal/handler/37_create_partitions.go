package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// CreatePartitions (key 37), versions 0-3 (KIP-195): each raises spec.partitions of a Topic
// resource.
//
//	2  flexible     3  THROTTLING_QUOTA_EXCEEDED, which is never said (KIP-599)
//
// Replicas are not assigned by hand, as in CreateTopics; they can be moved after
// (AlterPartitionReassignments).

// createPartitionsShape is the request's fields (see shape.go).
var createPartitionsShape = shape{array(text(), fixed(4), array(plainArray(fixed(4)))), fixed(5)}

// createPartitions waits until all new partitions have a leader: clients produce to them at once.
func (h *Handler) createPartitions(ctx context.Context, raw *wire.Request,
	req *kmsg.CreatePartitionsRequest) wire.Reply {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrCreatePartitionsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	twice := repeated(req.Topics,
		func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	var grown []*kmsg.CreatePartitionsRequestTopic
	for i := range req.Topics {
		asked := &req.Topics[i]
		err := h.authorize(raw, alterTopic, asked.Topic)
		if err == nil {
			err = h.writable()
		}
		switch {
		case err != nil:
		case twice[asked.Topic]:
			err = fmt.Errorf("%w: topic %q is named more than once", errInvalidRequest, asked.Topic)
		case asked.Assignment != nil:
			err = fmt.Errorf(
				"%w: replicas are placed by the operator; give a number of partitions, and move them after",
				errReplicaAssignment,
			)
		default:
			err = h.opts.Alterer.CreatePartitions(ctx,
				metadata.NewPartitions{Name: asked.Topic, Count: asked.Count,
					Validate: req.ValidateOnly})
		}
		if err == nil && !req.ValidateOnly {
			grown = append(grown, asked)
		}
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic = asked.Topic
		topic.ErrorCode, topic.ErrorMessage = result.code(err), message(err)
		response.Topics = append(response.Topics, topic)
	}
	for _, asked := range grown {
		h.awaitShown(ctx, func(img *metadata.Image) bool {
			topic := img.Topic(asked.Topic)
			return topic == nil || len(topic.Partitions) >= int(asked.Count) &&
				allLed(img, []metadata.ID{topic.ID})
		})
	}
	return reply(response, result)
}
