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

// DescribeConfigs (key 32), versions 1-4: returns the settings of a topic under their Kafka names,
// and a few settings of this broker.
//
//	1  synonyms and sources (KIP-226)
//	3  type and documentation (KIP-569)
//	4  flexible
//
// Java's kafka-configs also requests the settings of brokers and their loggers. It fails without a
// response for them, but the response may be empty.

// describeConfigsShape describes the fields of the request (shape.go).
var describeConfigsShape = shape{array(fixed(1), text(), plainArray(text())), fixed(1),
	fixed(1).from(3)}

// describeConfigs handles a DescribeConfigs request. If the names of settings are null, it returns
// all settings of the resource.
func (h *Handler) describeConfigs(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeConfigsRequest) wire.Reply {
	response := kmsg.NewPtrDescribeConfigsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	img := h.opts.Image()
	for i := range req.Resources {
		requested := &req.Resources[i]
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = requested.ResourceType,
			requested.ResourceName
		configs, err := h.resourceConfigs(img, raw, requested)
		resource.ErrorCode, resource.ErrorMessage = result.code(err), message(err)
		for _, config := range configs {
			if requested.ConfigNames == nil || slices.Contains(requested.ConfigNames, config.Name) {
				resource.Configs = append(resource.Configs, config.describe(req))
			}
		}
		response.Resources = append(response.Resources, resource)
	}
	return reply(response, result)
}

// config is a setting of a resource, with the source of its value.
type config struct {
	topicconfig.Property
	source   kmsg.ConfigSource
	readOnly bool
	// synonyms begins with the value in effect and ends with the default. If it is empty, the
	// setting itself is the only source.
	synonyms []synonym
}

// synonym is a possible source of a setting's value (KIP-226).
type synonym struct {
	name, value string
	source      kmsg.ConfigSource
}

// resourceConfigs returns the settings of a topic or of this broker, or no settings for a logger.
func (h *Handler) resourceConfigs(img *metadata.Image, raw *wire.Request,
	requested *kmsg.DescribeConfigsRequestResource) ([]config, error) {
	err := h.authorizeConfigs(raw, requested.ResourceType, requested.ResourceName,
		describeTopicConfigs,
		describeClusterConfigs)
	if err != nil {
		return nil, err
	}
	switch requested.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		topic := img.Topic(requested.ResourceName)
		if topic == nil {
			return nil, metadata.ErrTopicNotFound
		}
		return topicConfigs(topic, img.Defaults), nil
	case kmsg.ConfigResourceTypeBroker:
		if requested.ResourceName == "" {
			return nil, nil // requests the dynamic defaults of all brokers, which do not exist
		}
		if err := h.checkBroker(requested.ResourceName); err != nil {
			return nil, err
		}
		return h.brokerConfigs(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return nil, h.checkBroker(requested.ResourceName)
	}
	return nil, fmt.Errorf("%w: resource type %d", errInvalidRequest, requested.ResourceType)
}

// authorizeConfigs returns nil if the client may perform an operation on the settings of a
// resource. Parameter topic is the operation for topics, and parameter cluster is the operation for
// brokers and their loggers.
func (h *Handler) authorizeConfigs(raw *wire.Request, kind kmsg.ConfigResourceType, name string,
	topic, cluster RequiredOperation) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.authorize(raw, topic, name)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		return h.authorize(raw, cluster, clusterName)
	}
	return nil
}

// topicConfigs returns the settings of a topic with their sources. The source of a value is the
// Topic, the LogCluster's topicDefaults (shown as Kafka's dynamic default of all brokers) or
// Kafka's own default. If a Topic sets the same value as topicDefaults, the source is
// topicDefaults.
func topicConfigs(topic *metadata.Topic, defaults topicconfig.Settings) []config {
	properties, clusters := topic.Settings.Properties(), defaults.Properties()
	kafkas := topicconfig.Default().Properties()
	configs := make([]config, 0, len(properties))
	for i, p := range properties {
		var from []synonym
		if p.Value != clusters[i].Value {
			from = append(from, synonym{p.Name, p.Value, kmsg.ConfigSourceDynamicTopicConfig})
		}
		if !clusters[i].Default {
			from = append(from,
				synonym{brokerName(p.Name), clusters[i].Value,
					kmsg.ConfigSourceDynamicDefaultBrokerConfig})
		}
		from = append(from, synonym{brokerName(p.Name), kafkas[i].Value,
			kmsg.ConfigSourceDefaultConfig})
		configs = append(configs, config{p, from[0].source, false, from})
	}
	return configs
}

// brokerNames maps topic settings to Kafka's broker settings with the same meaning, if the broker
// setting is not the topic setting with the prefix "log.".
var brokerNames = map[string]string{
	"compression.type": "compression.type", "compression.gzip.level": "compression.gzip.level",
	"compression.lz4.level":  "compression.lz4.level",
	"compression.zstd.level": "compression.zstd.level",
	"min.insync.replicas":    "min.insync.replicas", "max.message.bytes": "message.max.bytes",
	"unclean.leader.election.enable": "unclean.leader.election.enable",
	"delete.retention.ms":            "log.cleaner.delete.retention.ms",
	"min.cleanable.dirty.ratio":      "log.cleaner.min.cleanable.ratio",
	"min.compaction.lag.ms":          "log.cleaner.min.compaction.lag.ms",
	"max.compaction.lag.ms":          "log.cleaner.max.compaction.lag.ms",
	"file.delete.delay.ms":           "log.segment.delete.delay.ms",
	"flush.messages":                 "log.flush.interval.messages",
	"flush.ms":                       "log.flush.interval.ms",
	"index.interval.bytes":           "log.index.interval.bytes",
	"segment.index.bytes":            "log.index.size.max.bytes", "segment.ms": "log.roll.ms",
	"segment.jitter.ms": "log.roll.jitter.ms",
}

func brokerName(property string) string {
	if name, ok := brokerNames[property]; ok {
		return name
	}
	return "log." + property
}

// topicSource returns Kafka's default or the topic as the source of a value. It cannot distinguish
// the Topic from the LogCluster's topicDefaults, because both are merged in the topic's settings.
func topicSource(property *topicconfig.Property) kmsg.ConfigSource {
	if property.Default {
		return kmsg.ConfigSourceDefaultConfig
	}
	return kmsg.ConfigSourceDynamicTopicConfig
}

// checkBroker returns an error for the id of another broker, as in Kafka, because only a broker
// itself has its configuration.
func (h *Handler) checkBroker(name string) error {
	if name != strconv.Itoa(int(h.opts.NodeID)) {
		return fmt.Errorf("%w: configuration of broker %q requested from broker %d",
			errInvalidRequest, name,
			h.opts.NodeID)
	}
	return nil
}

// brokerConfigs returns the settings of the broker that tools request. All of them are read-only.
func (h *Handler) brokerConfigs() []config {
	fixed, policy := kmsg.ConfigSourceStaticBrokerConfig, h.opts.Image().Policy
	return slices.Concat([]config{
		{topicconfig.Property{
			Name:  "auto.create.topics.enable",
			Value: strconv.FormatBool(policy.AutoCreate && !policy.ReadOnly), Type: "boolean",
			Doc: "Create a topic that a client requests (LogCluster.spec.autoCreateTopics).",
		}, fixed, true, nil},
		{topicconfig.Property{Name: "log.dirs", Value: h.opts.DataDir, Type: "string",
			Doc: "The data directory."}, fixed, true, nil},
		{topicconfig.Property{Name: "node.id", Value: strconv.Itoa(int(h.opts.NodeID)), Type: "int",
			Doc: "The id of the broker."}, fixed, true, nil},
		{topicconfig.Property{Name: "socket.request.max.bytes",
			Value: strconv.Itoa(produceFrameMax), Type: "int",
			Doc: "The largest request, in bytes."}, fixed, true, nil},
	}, h.groupConfigs())
}

// groupConfigs returns the group settings of the LogCluster under Kafka's names and in Kafka's
// units.
func (h *Handler) groupConfigs() []config {
	set, now := h.opts.Image().Groups, h.opts.Groups.Config()
	one := func(name string, value int64, isSet bool, doc string) config {
		source := kmsg.ConfigSourceDefaultConfig
		if isSet {
			source = kmsg.ConfigSourceStaticBrokerConfig
		}
		return config{topicconfig.Property{Name: name, Value: strconv.FormatInt(value, 10),
			Type: "int", Doc: doc}, source, true, nil}
	}
	return []config{
		one(
			"group.consumer.heartbeat.interval.ms",
			now.ConsumerInterval.Milliseconds(),
			set.ConsumerInterval != 0,
			"The heartbeat interval of members of the consumer protocol "+
				"(LogCluster.spec.groups.consumerHeartbeatInterval).",
		),
		one(
			"group.consumer.session.timeout.ms",
			now.ConsumerSession.Milliseconds(),
			set.ConsumerSession != 0,
			"The time without a heartbeat after which a member of the consumer protocol is removed "+
				"(LogCluster.spec.groups.consumerSessionTimeout).",
		),
		one(
			"group.initial.rebalance.delay.ms",
			max(0, now.InitialDelay).Milliseconds(),
			set.InitialDelay != 0,
			"How long an empty group waits for more members before its first rebalance "+
				"(LogCluster.spec.groups.initialRebalanceDelay).",
		),
		one("group.max.session.timeout.ms", now.SessionMax.Milliseconds(), set.SessionMax != 0,
			"The longest session timeout (LogCluster.spec.groups.sessionTimeoutMax)."),
		one("group.max.size", int64(now.MembersMax), set.MembersMax != 0,
			"The most members of a group (LogCluster.spec.groups.membersMax)."),
		one("group.min.session.timeout.ms", now.SessionMin.Milliseconds(), set.SessionMin != 0,
			"The shortest session timeout (LogCluster.spec.groups.sessionTimeoutMin)."),
		one("offset.metadata.max.bytes", int64(max(0, now.MetadataBytesMax)),
			set.MetadataBytesMax != 0,
			"The largest metadata of an offset (LogCluster.spec.groups.offsetMetadataMax)."),
		one(
			"offsets.retention.minutes",
			int64(now.Retention.Minutes()),
			set.OffsetsRetention != 0,
			"How long offsets are kept after no member subscribes to their topic "+
				"(LogCluster.spec.groups.offsetsRetention).",
		),
	}
}

// configTypes maps the types of settings to their numbers in the protocol.
var configTypes = map[string]kmsg.ConfigType{
	"boolean": kmsg.ConfigTypeBoolean, "string": kmsg.ConfigTypeString, "int": kmsg.ConfigTypeInt,
	"short": kmsg.ConfigTypeShort,
	"long":  kmsg.ConfigTypeLong, "double": kmsg.ConfigTypeDouble, "list": kmsg.ConfigTypeList,
}

// describe returns the setting as a part of the response.
func (c *config) describe(
	req *kmsg.DescribeConfigsRequest,
) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.Source, out.ReadOnly = c.Name, &c.Value, c.source, c.readOnly
	out.ConfigType = configTypes[c.Type]
	if req.IncludeSynonyms {
		from := c.synonyms
		if len(from) == 0 {
			from = []synonym{{c.Name, c.Value, c.source}}
		}
		for i := range from {
			one := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			one.Name, one.Value, one.Source = from[i].name, &from[i].value, from[i].source
			out.ConfigSynonyms = append(out.ConfigSynonyms, one)
		}
	}
	if req.IncludeDocumentation {
		out.Documentation = &c.Doc
	}
	return out
}
