package handler

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// IncrementalAlterConfigs (key 44), versions 0-1 (KIP-339): a topic's properties are set, deleted,
// added to or taken from, and so its Topic resource is changed.
//
//	1  flexible
//
// Brokers have no settings that could be changed here: those are the LogCluster's. To delete one
// that is not set is no error, as tools clean up so (kafka-reassign-partitions).

// incrementalAlterConfigsShape is the request's fields (see shape.go).
var incrementalAlterConfigsShape = shape{array(fixed(1), text(), array(text(), fixed(1), text())),
	fixed(1)}

// incrementalAlterConfigs changes resource by resource, each wholly or not at all.
func (h *Handler) incrementalAlterConfigs(ctx context.Context, raw *wire.Request,
	req *kmsg.IncrementalAlterConfigsRequest) wire.Reply {
	response := kmsg.NewPtrIncrementalAlterConfigsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	twice := repeated(req.Resources, func(r *kmsg.IncrementalAlterConfigsRequestResource) string {
		return resourceKey(r.ResourceType, r.ResourceName)
	})
	for i := range req.Resources {
		asked := &req.Resources[i]
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = asked.ResourceType, asked.ResourceName
		change := metadata.TopicChange{Name: asked.ResourceName, Validate: req.ValidateOnly}
		err := notTwice(twice, asked.ResourceType, asked.ResourceName)
		for _, config := range asked.Configs {
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
			err = h.alterConfigsOf(ctx, raw, asked.ResourceType, change)
		}
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}

func resourceKey(kind kmsg.ConfigResourceType, name string) string {
	return strconv.Itoa(int(kind)) + " " + name
}

// notTwice refuses a resource that a request names more than once: nobody can say which of the two
// is meant.
func notTwice(twice map[string]bool, kind kmsg.ConfigResourceType, name string) error {
	if twice[resourceKey(kind, name)] {
		return fmt.Errorf("%w: resource %q is named more than once", errInvalidRequest, name)
	}
	return nil
}

// alterConfigsOf changes a topic, or says what can be changed of a broker: nothing.
func (h *Handler) alterConfigsOf(ctx context.Context, raw *wire.Request,
	kind kmsg.ConfigResourceType,
	change metadata.TopicChange) error {
	err := h.authorizeConfigs(raw, kind, change.Name, alterTopicConfigs, alterClusterConfigs)
	if err == nil {
		err = h.writable()
	}
	if err != nil {
		return err
	}
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.alterTopic(ctx, change)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		for _, p := range change.Properties {
			if p.Op != metadata.PropertyDelete {
				return fmt.Errorf(
					"%w: %s cannot be set: brokers' settings are in the LogCluster resource",
					errInvalidRequest,
					p.Name,
				)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: resource type %d", errInvalidRequest, kind)
}

// alterTopic waits until the change is seen here, which is when the topic's settings are others
// than those that the image had; a change that changes nothing is seen at once.
func (h *Handler) alterTopic(ctx context.Context, change metadata.TopicChange) error {
	ctx, cancel := context.WithTimeout(ctx, adminWaitMax)
	defer cancel()
	before := h.opts.Image().Topic(change.Name)
	if err := h.opts.Alterer.AlterTopic(ctx, change); err != nil || change.Validate ||
		before == nil {
		return err
	}
	h.awaitTopic(ctx, change.Name, func(topic *metadata.Topic) bool {
		return topic.Settings != before.Settings || holds(topic, change)
	})
	return nil
}

// holds tells whether a topic has all that a change sets. What it deletes or adds to is taken to be
// there.
func holds(topic *metadata.Topic, change metadata.TopicChange) bool {
	wanted := topic.Settings
	for _, p := range change.Properties {
		if p.Op == metadata.PropertySet && wanted.Set(p.Name, p.Value) != nil {
			return true // a level of another codec, say: the change as a whole was taken
		}
	}
	return wanted == topic.Settings
}
