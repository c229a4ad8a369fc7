package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterConfigs (key 33), versions 0-2 (KIP-133): a topic's properties are those of the request, and
// all others their defaults. What has no Kafka name (compaction.maxGarbagePercent) stays.
//
//	2  flexible

// alterConfigsShape is the request's fields (see shape.go).
var alterConfigsShape = shape{array(fixed(1), text(), array(text(), text())), fixed(1)}

// alterConfigs changes resource by resource, each wholly or not at all.
func (h *Handler) alterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrAlterConfigsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	twice := repeated(req.Resources,
		func(r *kmsg.AlterConfigsRequestResource) string {
			return resourceKey(r.ResourceType,
				r.ResourceName)
		})
	for i := range req.Resources {
		asked := &req.Resources[i]
		resource := kmsg.NewAlterConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = asked.ResourceType, asked.ResourceName
		change := metadata.TopicChange{Name: asked.ResourceName, Replace: true,
			Validate: req.ValidateOnly}
		err := notTwice(twice, asked.ResourceType, asked.ResourceName)
		for _, config := range asked.Configs {
			if config.Value == nil {
				err = fmt.Errorf("%w: %s has a null value", errInvalidRequest, config.Name)
				break
			}
			change.Properties = append(change.Properties,
				metadata.PropertyChange{Name: config.Name, Value: *config.Value})
		}
		if err == nil {
			err = h.alterConfigsOf(ctx, raw, asked.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}
