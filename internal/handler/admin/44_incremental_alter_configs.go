package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// IncrementalAlterConfigs (key 44), versions 0-1 (KIP-339): sets or deletes properties of a Topic
// or LogCluster resource, or appends to or subtracts from a list. Group configs are also stored in
// the LogCluster.
//
//	1  flexible
//
// Broker settings are fields of the LogCluster (broker_configs.go).

// IncrementalAlterConfigsShape describes the fields of the request (api.Shape).
var IncrementalAlterConfigsShape = api.Shape{api.Array(api.Fixed(1), api.Text(),
	api.Array(api.Text(), api.Fixed(1), api.Text())),
	api.Fixed(1)}

// IncrementalAlterConfigs changes the resources one after the other. It changes each resource
// completely or not at all.
func (h *Handler) IncrementalAlterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.IncrementalAlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrIncrementalAlterConfigsResponse()
	response.Version = req.Version
	result := h.Outcome()
	duplicates := repeated(req.Resources,
		func(r *kmsg.IncrementalAlterConfigsRequestResource) string {
			return resourceKey(r.ResourceType, r.ResourceName)
		})
	for i := range req.Resources {
		requested := &req.Resources[i]
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = requested.ResourceType,
			requested.ResourceName
		change := metadata.TopicChange{Name: requested.ResourceName, Validate: req.ValidateOnly}
		err := checkUnique(duplicates, requested.ResourceType, requested.ResourceName)
		for _, config := range requested.Configs {
			property := metadata.PropertyChange{Name: config.Name,
				Op: metadata.PropertyOp(config.Op)}
			if config.Value != nil {
				property.Value = *config.Value
			} else if property.Op != metadata.PropertyDelete && err == nil {
				err = fmt.Errorf("%w: %s has a null value", api.ErrInvalidRequest, config.Name)
			}
			change.Properties = append(change.Properties, property)
		}
		if err == nil {
			err = h.alterConfigsOf(ctx, raw, requested.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.Code(err), api.Message(err)
		response.Resources = append(response.Resources, resource)
	}
	return api.Reply(response, result)
}

func resourceKey(kind kmsg.ConfigResourceType, name string) string {
	return strconv.Itoa(int(kind)) + " " + name
}

// checkUnique returns an error for a resource that a request contains more than once, because the
// request may contain different changes for it.
func checkUnique(duplicates map[string]bool, kind kmsg.ConfigResourceType, name string) error {
	if duplicates[resourceKey(kind, name)] {
		return fmt.Errorf("%w: resource %q is named more than once", api.ErrInvalidRequest, name)
	}
	return nil
}

// alterConfigsOf changes the settings of a topic, a group or all brokers. It rejects changes of a
// logger, except deletions, which have no effect.
func (h *Handler) alterConfigsOf(ctx context.Context, raw *wire.Request,
	kind kmsg.ConfigResourceType,
	change metadata.TopicChange) error {
	err := h.authorizeConfigs(raw, api.OpAlterConfigs, kind, change.Name)
	if err == nil {
		err = api.Writable(h.Image())
	}
	if err != nil {
		return err
	}
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.alterTopic(ctx, change)
	case kmsg.ConfigResourceTypeGroupConfig:
		return h.alterGroup(ctx, change)
	case kmsg.ConfigResourceTypeClientMetrics:
		return alterClientMetrics(change)
	case kmsg.ConfigResourceTypeBroker:
		return h.alterBroker(ctx, change)
	case kmsg.ConfigResourceTypeBrokerLogger:
		for _, p := range change.Properties {
			if p.Op != metadata.PropertyDelete {
				return fmt.Errorf("%w: the level of logger %s cannot be changed", api.ErrInvalidRequest,
					p.Name)
			}
		}
		return h.checkBroker(change.Name)
	}
	return fmt.Errorf("%w: resource type %d", api.ErrInvalidRequest, kind)
}

// alterTopic changes a topic's settings. It waits until the topic's settings in the metadata image
// differ from the previous ones or contain the requested values.
func (h *Handler) alterTopic(ctx context.Context, change metadata.TopicChange) error {
	ctx, cancel := api.WithTimeout(ctx, api.AdminWaitMax)
	defer cancel()
	before := h.Image().Topic(change.Name)
	if err := h.Alterer.AlterTopic(ctx, change); err != nil || change.Validate ||
		before == nil {
		return err
	}
	h.awaitTopic(ctx, change.Name, func(topic *metadata.Topic) bool {
		return topic.Settings != before.Settings || !slices.Equal(topic.Own, before.Own) ||
			matchesChange(topic, change)
	})
	return nil
}

// matchesChange reports whether the topic's own settings contain every value that a change sets. It
// does not check deletions, appends and subtractions.
func matchesChange(topic *metadata.Topic, change metadata.TopicChange) bool {
	target := topic.Settings
	for _, p := range change.Properties {
		if p.Op != metadata.PropertySet || topicconfig.Ignored(p.Name) {
			continue
		}
		if isLevel := strings.HasSuffix(p.Name, ".level"); !isLevel &&
			!slices.Contains(topic.Own, p.Name) {
			return false // still the default; only the level of another codec may remain at it
		}
		if target.Set(p.Name, p.Value) != nil {
			// Set fails if a property depends on a later one, such as a level whose codec is set later. The
			// change is valid, because the metadata store has accepted it.
			return true
		}
	}
	return target == topic.Settings
}
