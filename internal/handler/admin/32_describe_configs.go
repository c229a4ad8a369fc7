package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeConfigs (key 32), versions 1-4: returns the settings of a topic, a group
// (group_configs.go) or this broker (broker_configs.go) with their Kafka names.
//
//	1  synonyms and sources (KIP-226)
//	3  type and documentation (KIP-569)
//	4  flexible
//
// Java's kafka-configs also requests the settings of brokers and their loggers. It fails if there
// is no response for them, but accepts an empty response.

// DescribeConfigsShape describes the fields of the request (api.Shape).
var DescribeConfigsShape = api.Shape{api.Array(api.Fixed(1), api.Text(),
	api.PlainArray(api.Text())), api.Fixed(1),
	api.Fixed(1).From(3)}

// DescribeConfigs handles a DescribeConfigs request. If the list of setting names is null or empty,
// it returns all settings of the resource.
func (h *Handler) DescribeConfigs(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeConfigsRequest) wire.Reply {
	response := kmsg.NewPtrDescribeConfigsResponse()
	response.Version = req.Version
	result := h.Outcome()
	img := h.Image()
	for i := range req.Resources {
		requested := &req.Resources[i]
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = requested.ResourceType,
			requested.ResourceName
		configs, err := h.resourceConfigs(img, raw, requested)
		resource.ErrorCode, resource.ErrorMessage = result.Code(err), api.Message(err)
		for _, config := range configs {
			if len(requested.ConfigNames) == 0 || slices.Contains(requested.ConfigNames, config.Name) {
				resource.Configs = append(resource.Configs, config.describe(req))
			}
		}
		response.Resources = append(response.Resources, resource)
	}
	return api.Reply(response, result)
}

// config is a resource's setting, with the source of its value.
type config struct {
	topicconfig.Property
	source   kmsg.ConfigSource
	readOnly bool
	null     bool // true if the setting has no value
	// synonyms contains all configured values in order of precedence. The first is the value in
	// effect, and the last is the default.
	synonyms []synonym
}

// synonym is a value of a setting with its source (KIP-226).
type synonym struct {
	name, value string
	source      kmsg.ConfigSource
}

// resourceConfigs returns a resource's settings. A logger has none.
func (h *Handler) resourceConfigs(img *metadata.Image, raw *wire.Request,
	requested *kmsg.DescribeConfigsRequestResource) ([]config, error) {
	err := h.authorizeConfigs(raw, api.OpDescribeConfigs, requested.ResourceType,
		requested.ResourceName)
	if err != nil {
		return nil, err
	}
	switch requested.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := metadata.CheckTopicName(requested.ResourceName); err != nil {
			return nil, err
		}
		topic := img.Topic(requested.ResourceName)
		if topic == nil {
			return nil, metadata.ErrTopicNotFound
		}
		return topicConfigs(topic, img), nil
	case kmsg.ConfigResourceTypeBroker:
		if requested.ResourceName == "" {
			return clusterConfigs(img), nil
		}
		if err := h.checkBroker(requested.ResourceName); err != nil {
			return nil, err
		}
		return h.brokerConfigs(img), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return nil, h.checkBroker(requested.ResourceName)
	case kmsg.ConfigResourceTypeGroupConfig:
		return configsOfGroup(img, requested.ResourceName)
	case kmsg.ConfigResourceTypeClientMetrics:
		return configsOfClientMetrics(requested.ResourceName)
	}
	return nil, fmt.Errorf("%w: resource type %d", api.ErrInvalidRequest, requested.ResourceType)
}

// authorizeConfigs returns nil if the client may perform an operation on a resource's settings. For
// brokers, their loggers and client metrics subscriptions, the operation is authorized on the
// cluster.
func (h *Handler) authorizeConfigs(raw *wire.Request, op api.Operation,
	kind kmsg.ConfigResourceType,
	name string) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.Authorize(raw, api.RequiredOperation{Operation: op, Type: api.ResourceTopic}, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return h.Authorize(raw, api.RequiredOperation{Operation: op, Type: api.ResourceGroup}, name)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
		kmsg.ConfigResourceTypeClientMetrics:
		return h.Authorize(raw, api.RequiredOperation{Operation: op, Type: api.ResourceCluster},
			api.ClusterName)
	}
	return nil
}

// topicConfigs returns a topic's settings with their sources. A value's source is the Topic, the
// LogCluster's topicDefaults (reported as Kafka's dynamic default for all brokers), or Kafka's own
// default.
func topicConfigs(topic *metadata.Topic, img *metadata.Image) []config {
	properties, kafkas := topic.Settings.Properties(), topicconfig.Default().Properties()
	configs := make([]config, 0, len(properties))
	for i, p := range properties {
		var from []synonym
		if slices.Contains(topic.Own, p.Name) {
			from = append(from, synonym{p.Name, p.Value, kmsg.ConfigSourceDynamicTopicConfig})
		}
		name := brokerconfig.OfTopic(p.Name).Name
		if value, ok := img.ClusterProperties[name]; ok {
			from = append(from, synonym{name, value, kmsg.ConfigSourceDynamicDefaultBrokerConfig})
		}
		from = append(from, synonym{name, kafkas[i].Value, kmsg.ConfigSourceDefaultConfig})
		configs = append(configs, config{Property: p, source: from[0].source, synonyms: from})
	}
	return configs
}

// checkBroker returns an error if name is the id of another broker, as in Kafka, because only that
// broker knows its configuration.
func (h *Handler) checkBroker(name string) error {
	if _, err := strconv.Atoi(name); err != nil {
		return fmt.Errorf("%w: node id must be an integer, but it is: %s", api.ErrInvalidRequest, name)
	}
	if name != strconv.Itoa(int(h.Broker.NodeID)) {
		return fmt.Errorf("%w: configuration of broker %q requested from broker %d",
			api.ErrInvalidRequest, name,
			h.Broker.NodeID)
	}
	return nil
}

// configTypes maps setting types to their protocol numbers.
var configTypes = map[string]kmsg.ConfigType{
	"boolean": kmsg.ConfigTypeBoolean, "string": kmsg.ConfigTypeString, "int": kmsg.ConfigTypeInt,
	"short": kmsg.ConfigTypeShort,
	"long":  kmsg.ConfigTypeLong, "double": kmsg.ConfigTypeDouble, "list": kmsg.ConfigTypeList,
}

// describe returns the setting in the format of the response.
func (c *config) describe(
	req *kmsg.DescribeConfigsRequest,
) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Source, out.ReadOnly = c.Name, c.source, c.readOnly
	if !c.null {
		out.Value = &c.Value
	}
	out.ConfigType = configTypes[c.Type]
	if req.IncludeSynonyms {
		for i := range c.synonyms {
			from := &c.synonyms[i]
			one := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			one.Name, one.Value, one.Source = from.name, &from.value, from.source
			out.ConfigSynonyms = append(out.ConfigSynonyms, one)
		}
	}
	if req.IncludeDocumentation {
		out.Documentation = &c.Doc
	}
	return out
}
