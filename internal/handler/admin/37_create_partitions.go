package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// CreatePartitions (key 37), versions 0-3 (KIP-195): raises spec.partitions of Topic resources.
//
//	2  flexible
//	3  the error THROTTLING_QUOTA_EXCEEDED (KIP-599)
//
// As in CreateTopics, the request may assign the new partitions' replicas.

// CreatePartitionsShape describes the fields of the request (api.Shape).
var CreatePartitionsShape = api.Shape{api.Array(api.Text(), api.Fixed(4),
	api.Array(api.PlainArray(api.Fixed(4)))), api.Fixed(5)}

// CreatePartitions adds the partitions and waits until all of them have a leader, because clients
// produce to new partitions immediately.
func (h *Handler) CreatePartitions(ctx context.Context, raw *wire.Request,
	req *kmsg.CreatePartitionsRequest) wire.Reply {
	quotas := api.MeterOf(ctx)
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrCreatePartitionsResponse()
	response.Version = req.Version
	result := h.Outcome()
	duplicates := repeated(req.Topics,
		func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	var grown []*kmsg.CreatePartitionsRequestTopic
	for i := range req.Topics {
		requested := &req.Topics[i]
		err := h.Authorize(raw, api.AlterTopic, requested.Topic)
		if err == nil {
			err = api.Writable(h.Image())
		}
		switch {
		case err != nil:
		case duplicates[requested.Topic]:
			err = fmt.Errorf("%w: topic %q is named more than once", api.ErrInvalidRequest,
				requested.Topic)
		default:
			more := metadata.NewPartitions{Name: requested.Topic, Count: requested.Count,
				Validate: req.ValidateOnly}
			if requested.Assignment != nil {
				more.Assignment = make([][]int32, 0, len(requested.Assignment))
			}
			for _, assigned := range requested.Assignment {
				more.Assignment = append(more.Assignment, assigned.Replicas)
			}
			err = h.growWithin(ctx, quotas, req.Version >= 3, more)
		}
		if err == nil && !req.ValidateOnly {
			grown = append(grown, requested)
		}
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic = requested.Topic
		topic.ErrorCode, topic.ErrorMessage = result.Code(err), api.Message(err)
		response.Topics = append(response.Topics, topic)
	}
	for _, requested := range grown {
		h.awaitImage(ctx, func(img *metadata.Image) bool {
			topic := img.Topic(requested.Topic)
			return topic == nil || len(topic.Partitions) >= int(requested.Count) &&
				allLed(img, []metadata.ID{topic.ID})
		})
	}
	return api.Reply(response, result)
}

// growWithin adds partitions within the client's quota. If strict is set, it fails if the client
// has exceeded the quota.
func (h *Handler) growWithin(ctx context.Context, quotas *api.Meter, strict bool,
	more metadata.NewPartitions) error {
	topic := h.Image().Topic(more.Name)
	if topic == nil || more.Validate {
		return h.Alterer.CreatePartitions(ctx, more)
	}
	added := max(0, int(more.Count)-len(topic.Partitions))
	if err := quotas.Mutate(added, strict); err != nil {
		return err
	}
	err := h.Alterer.CreatePartitions(ctx, more)
	if err != nil {
		quotas.Adjust(-added, strict)
	}
	return err
}
