package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterConfigs (key 33), versions 0-2 (KIP-133): sets the properties of the request, and resets all
// other properties to their defaults. Settings without a Kafka name (compaction.maxGarbagePercent)
// remain.
//
//	2  flexible

// alterConfigsShape describes the fields of the request (shape.go).
var alterConfigsShape = shape{array(fixed(1), text(), array(text(), text())), fixed(1)}

// alterConfigs changes the resources one after the other. Each resource is changed completely or
// not at all.
func (h *Handler) alterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrAlterConfigsResponse()
	response.Version = req.Version
	result := h.outcome()
	duplicates := repeated(req.Resources,
		func(r *kmsg.AlterConfigsRequestResource) string {
			return resourceKey(r.ResourceType,
				r.ResourceName)
		})
	for i := range req.Resources {
		requested := &req.Resources[i]
		resource := kmsg.NewAlterConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = requested.ResourceType,
			requested.ResourceName
		change := metadata.TopicChange{Name: requested.ResourceName, Replace: true,
			Validate: req.ValidateOnly}
		err := checkUnique(duplicates, requested.ResourceType, requested.ResourceName)
		for _, config := range requested.Configs {
			if config.Value == nil {
				err = fmt.Errorf("%w: %s has a null value", errInvalidRequest, config.Name)
				break
			}
			change.Properties = append(change.Properties,
				metadata.PropertyChange{Name: config.Name, Value: *config.Value})
		}
		if err == nil {
			err = h.alterConfigsOf(ctx, raw, requested.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}
