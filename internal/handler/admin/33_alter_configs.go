package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterConfigs (key 33), versions 0-2 (KIP-133): sets the properties in the request, and resets all
// other properties to their defaults. Settings without a Kafka name (compaction.maxGarbagePercent)
// do not change.
//
//	2  flexible

// AlterConfigsShape describes the fields of the request (api.Shape).
var AlterConfigsShape = api.Shape{api.Array(api.Fixed(1), api.Text(), api.Array(api.Text(),
	api.Text())), api.Fixed(1)}

// AlterConfigs changes the resources one after the other. It changes each resource completely or
// not at all.
func (h *Handler) AlterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrAlterConfigsResponse()
	response.Version = req.Version
	result := h.Outcome()
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
				err = fmt.Errorf("%w: %s has a null value", api.ErrInvalidRequest, config.Name)
				break
			}
			change.Properties = append(change.Properties,
				metadata.PropertyChange{Name: config.Name, Value: *config.Value})
		}
		if err == nil {
			err = h.alterConfigsOf(ctx, raw, requested.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.Code(err), api.Message(err)
		response.Resources = append(response.Resources, resource)
	}
	return api.Reply(response, result)
}
