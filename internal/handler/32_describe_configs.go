package handler

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeConfigs (key 32), versions 1-4: a topic's settings under their Kafka names, and the few that this broker has.
//
//	1  synonyms and sources (KIP-226)     3  type and documentation (KIP-569)     4  flexible
//
// Java's kafka-configs asks for brokers and their loggers too and wants an answer, be it empty.

// describeConfigsShape is the request's fields (see shape.go).
var describeConfigsShape = shape{array(fixed(1), text(), plainArray(text())), fixed(1), fixed(1).from(3)}

// describeConfigs answers resource by resource; null names ask for all settings, an empty list for none.
func (h *Handler) describeConfigs(_ context.Context, req *kmsg.DescribeConfigsRequest) wire.Reply {
	response := kmsg.NewPtrDescribeConfigsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	img := h.opts.Image()
	for i := range req.Resources {
		asked := &req.Resources[i]
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = asked.ResourceType, asked.ResourceName
		configs, err := h.resourceConfigs(img, asked)
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		for _, config := range configs {
			if asked.ConfigNames == nil || slices.Contains(asked.ConfigNames, config.Name) {
				resource.Configs = append(resource.Configs, config.describe(req))
			}
		}
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}

// config is a setting and where its value comes from.
type config struct {
	topicconfig.Property
	source   kmsg.ConfigSource
	readOnly bool
}

// resourceConfigs returns the settings of a topic or of this broker.
func (h *Handler) resourceConfigs(img *metadata.Image, asked *kmsg.DescribeConfigsRequestResource) ([]config, error) {
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		topic := img.Topic(asked.ResourceName)
		if topic == nil {
			return nil, metadata.ErrTopicNotFound
		}
		return topicConfigs(topic), nil
	case kmsg.ConfigResourceTypeBroker:
		if asked.ResourceName == "" {
			return nil, nil // the defaults of all brokers: none can be set
		}
		if err := h.checkBroker(asked.ResourceName); err != nil {
			return nil, err
		}
		return h.brokerConfigs(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return nil, h.checkBroker(asked.ResourceName)
	}
	return nil, fmt.Errorf("%w: resource type %d", errInvalidRequest, asked.ResourceType)
}

func topicConfigs(topic *metadata.Topic) []config {
	properties := topic.Settings.Properties()
	configs := make([]config, 0, len(properties))
	for i := range properties {
		// Not read-only in principle, but changed by applying the Topic resource, not through this protocol.
		configs = append(configs, config{properties[i], topicSource(&properties[i]), false})
	}
	return configs
}

// topicSource says default or set. Which of resource and cluster set it is not known here: both are in the topic's settings.
func topicSource(property *topicconfig.Property) kmsg.ConfigSource {
	if property.Default {
		return kmsg.ConfigSourceDefaultConfig
	}
	return kmsg.ConfigSourceDynamicTopicConfig
}

// checkBroker refuses to answer for another broker, as Kafka does: only the broker itself knows its configuration.
func (h *Handler) checkBroker(name string) error {
	if name != strconv.Itoa(int(h.opts.NodeID)) {
		return fmt.Errorf("%w: broker %q; this is broker %d", errInvalidRequest, name, h.opts.NodeID)
	}
	return nil
}

// brokerConfigs are the few that tools ask brokers for. All are read-only.
func (h *Handler) brokerConfigs() []config {
	fixed := kmsg.ConfigSourceStaticBrokerConfig
	return []config{
		{topicconfig.Property{Name: "auto.create.topics.enable", Value: "false", Type: "boolean", Doc: "Topics are resources; none is made by being asked for."}, fixed, true},
		{topicconfig.Property{Name: "node.id", Value: strconv.Itoa(int(h.opts.NodeID)), Type: "int", Doc: "The broker's number."}, fixed, true},
		{topicconfig.Property{Name: "socket.request.max.bytes", Value: strconv.Itoa(produceFrameMax), Type: "int", Doc: "The largest request, in bytes."}, fixed, true},
	}
}

// configTypes are the protocol's numbers for the types of settings.
var configTypes = map[string]kmsg.ConfigType{
	"boolean": kmsg.ConfigTypeBoolean, "string": kmsg.ConfigTypeString, "int": kmsg.ConfigTypeInt, "short": kmsg.ConfigTypeShort,
	"long": kmsg.ConfigTypeLong, "double": kmsg.ConfigTypeDouble, "list": kmsg.ConfigTypeList,
}

// describe encodes a setting. Its only synonym is itself: settings are resolved before they come here.
func (c *config) describe(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.Source, out.ReadOnly = c.Name, &c.Value, c.source, c.readOnly
	out.ConfigType = configTypes[c.Type]
	if req.IncludeSynonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = c.Name, &c.Value, c.source
		out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
	}
	if req.IncludeDocumentation {
		out.Documentation = &c.Doc
	}
	return out
}
