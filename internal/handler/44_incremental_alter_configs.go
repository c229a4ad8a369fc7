package handler

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// IncrementalAlterConfigs (key 44), versions 0-1 (KIP-339): sets or deletes properties of a Topic
// or LogCluster resource, or appends to or subtracts from a list. The settings of groups are in the
// LogCluster, too.
//
//	1  flexible
//
// Settings of brokers are fields of the LogCluster (broker_configs.go).

// incrementalAlterConfigsShape describes the fields of the request (shape.go).
var incrementalAlterConfigsShape = shape{array(fixed(1), text(), array(text(), fixed(1), text())),
	fixed(1)}

// incrementalAlterConfigs changes the resources one after the other. Each resource is changed
// completely or not at all.
func (h *Handler) incrementalAlterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.IncrementalAlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrIncrementalAlterConfigsResponse()
	response.Version = req.Version
	result := h.outcome()
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
				err = fmt.Errorf("%w: %s has a null value", errInvalidRequest, config.Name)
			}
			change.Properties = append(change.Properties, property)
		}
		if err == nil {
			err = h.alterConfigsOf(ctx, raw, requested.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}

func resourceKey(kind kmsg.ConfigResourceType, name string) string {
	return strconv.Itoa(int(kind)) + " " + name
}

// checkUnique returns an error for a resource that occurs more than once in a request, because its
// occurrences may request different changes.
func checkUnique(duplicates map[string]bool, kind kmsg.ConfigResourceType, name string) error {
	if duplicates[resourceKey(kind, name)] {
		return fmt.Errorf("%w: resource %q is named more than once", errInvalidRequest, name)
	}
	return nil
}

// alterConfigsOf changes the settings of a topic, of a group or of all brokers. For a logger it
// returns an error, unless the request only deletes settings.
func (h *Handler) alterConfigsOf(ctx context.Context, raw *wire.Request,
	kind kmsg.ConfigResourceType,
	change metadata.TopicChange) error {
	err := h.authorizeConfigs(raw, OpAlterConfigs, kind, change.Name)
	if err == nil {
		err = writable(h.opts.Image())
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
				return fmt.Errorf("%w: the level of logger %s cannot be changed", errInvalidRequest,
					p.Name)
			}
		}
		return h.checkBroker(change.Name)
	}
	return fmt.Errorf("%w: resource type %d", errInvalidRequest, kind)
}

// alterTopic changes the settings of a topic. It waits until the metadata image contains the
// change: until the settings differ from the previous settings, or contain the requested values.
func (h *Handler) alterTopic(ctx context.Context, change metadata.TopicChange) error {
	ctx, cancel := withTimeout(ctx, adminWaitMax)
	defer cancel()
	before := h.opts.Image().Topic(change.Name)
	if err := h.opts.Alterer.AlterTopic(ctx, change); err != nil || change.Validate ||
		before == nil {
		return err
	}
	h.awaitTopic(ctx, change.Name, func(topic *metadata.Topic) bool {
		return topic.Settings != before.Settings || !slices.Equal(topic.Own, before.Own) ||
			matchesChange(topic, change)
	})
	return nil
}

// matchesChange reports whether a topic itself sets every value that a change sets. It does not
// check deletions, appends and subtractions.
func matchesChange(topic *metadata.Topic, change metadata.TopicChange) bool {
	target := topic.Settings
	for _, p := range change.Properties {
		if p.Op != metadata.PropertySet || topicconfig.Ignored(p.Name) {
			continue
		}
		if isLevel := strings.HasSuffix(p.Name, ".level"); !isLevel &&
			!slices.Contains(topic.Own, p.Name) {
			return false // the default, which a level of another codec keeps
		}
		if target.Set(p.Name, p.Value) != nil {
			// Set fails, for example, for the level of a codec that is set after it; the store
			// accepted the change, so it is valid
			return true
		}
	}
	return target == topic.Settings
}
