package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// This file describes and changes broker settings. They are fields of the LogCluster, which all
// brokers share. In Kafka's terms, a field that is set is a dynamic cluster-wide default: a config
// of the resource of type BROKER with an empty name. Kafka can change fewer of these settings
// without a restart, because it reads some of them only at startup.

// brokerConfigs returns all of this broker's settings.
func (h *Handler) brokerConfigs(img *metadata.Image) []config {
	configs := h.ownConfigs(img)
	for _, v := range brokerconfig.Describe(img.ClusterProperties) {
		c := brokerConfig(v.Property, v.Value)
		c.null = v.Null
		if v.Set && c.readOnly {
			c.source = kmsg.ConfigSourceStaticBrokerConfig
		} else if v.Set {
			c.source = kmsg.ConfigSourceDynamicDefaultBrokerConfig
		}
		if v.Set {
			c.synonyms = append(c.synonyms, synonym{v.Name, v.Value, c.source})
		}
		if v.Fallback != nil && !v.Null { // Kafka returns no synonyms for a null value
			c.synonyms = append(c.synonyms, synonym{v.Fallback.Name, v.Fallback.Value,
				kmsg.ConfigSourceDefaultConfig})
		}
		configs = append(configs, c)
	}
	return configs
}

// clusterConfigs returns the settings that the LogCluster sets for all brokers.
func clusterConfigs(img *metadata.Image) (configs []config) {
	for _, v := range brokerconfig.Describe(img.ClusterProperties) {
		if !v.Set || !v.Alterable() {
			continue
		}
		c := brokerConfig(v.Property, v.Value)
		c.source = kmsg.ConfigSourceDynamicDefaultBrokerConfig
		c.synonyms = []synonym{{v.Name, v.Value, c.source}}
		configs = append(configs, c)
	}
	return configs
}

// ownConfigs returns this broker's own settings, such as its id and its listeners.
func (h *Handler) ownConfigs(img *metadata.Image) (configs []config) {
	self, _ := img.Broker(h.Broker.NodeID)
	id, listener := strconv.Itoa(int(h.Broker.NodeID)), strings.ToUpper(metadata.DefaultListener)
	var advertised, protocols []string
	for entry := range strings.SplitSeq(string(self.Endpoints), ",") {
		if name, address, ok := strings.Cut(entry, "://"); ok {
			name = strings.ToUpper(name) // Kafka also uses upper case
			advertised = append(advertised, name+"://"+address)
			protocols = append(protocols, name+":PLAINTEXT")
		}
	}
	for _, own := range []struct{ name, value string }{
		{brokerconfig.AdvertisedListeners, strings.Join(advertised, ",")},
		{brokerconfig.BrokerID, id},
		{brokerconfig.BrokerRack, self.Rack},
		{brokerconfig.InterBrokerListener, listener},
		{brokerconfig.ListenerProtocols, strings.Join(protocols, ",")},
		{brokerconfig.Listeners, listener + "://" + h.Broker.Listen},
		{brokerconfig.LogDir, h.Broker.DataDir},
		{brokerconfig.LogDirs, h.Broker.DataDir},
		{brokerconfig.NodeID, id},
	} {
		c := brokerConfig(brokerconfig.Find(own.name), own.value)
		if c.null = own.value == ""; !c.null { // a broker can have no rack
			c.source = kmsg.ConfigSourceStaticBrokerConfig
			c.synonyms = []synonym{{own.name, own.value, c.source}}
		}
		configs = append(configs, c)
	}
	return configs
}

// brokerConfig returns a setting with the given value, and Kafka's default as its source.
func brokerConfig(p *brokerconfig.Property, value string) config {
	return config{
		Property: topicconfig.Property{Name: p.Name, Value: value, Type: p.Type, Doc: p.Doc},
		source:   kmsg.ConfigSourceDefaultConfig, readOnly: !p.Alterable(),
	}
}

// throttles are the settings with which kafka-reassign-partitions --throttle limits a broker's
// replication while it moves partitions. They are accepted without effect, so that the tool works.
// The LogCluster's spec.replication.catchUpRate already limits replicas that copy records.
var throttles = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate",
	"replica.alter.log.dirs.io.max.bytes.per.second"}

// alterBroker changes the settings of all brokers if the resource's name is empty. It rejects
// changes of a single broker, because no setting applies to only one broker. A request that only
// sets throttles or deletes settings succeeds without effect, because tools set and delete
// throttles.
func (h *Handler) alterBroker(ctx context.Context, change metadata.TopicChange) error {
	if change.Name == "" {
		return h.alterCluster(ctx, metadata.ClusterChange{Properties: change.Properties,
			Replace: change.Replace, Validate: change.Validate})
	}
	if err := h.checkBroker(change.Name); err != nil {
		return err
	}
	for _, p := range change.Properties {
		if p.Op == metadata.PropertyDelete {
			continue
		}
		if slices.Contains(throttles, p.Name) {
			h.Logger.Warn("replication throttle has no effect: spec.replication.catchUpRate of the "+
				"LogCluster limits the copying of replicas", "setting", p.Name, "value", p.Value)
			continue
		}
		if property := brokerconfig.Find(p.Name); property != nil && property.Alterable() {
			return fmt.Errorf("%w: broker-level %s cannot be altered: %s of the LogCluster applies "+
				"to all brokers; alter the default of all brokers (kafka-configs --entity-default)",
				metadata.ErrInvalidSettings, p.Name, property.Field)
		}
		return fmt.Errorf("%w: cannot update these configs dynamically: [%s]",
			metadata.ErrInvalidProperty, p.Name)
	}
	return nil
}

// alterCluster changes settings in the LogCluster. It waits until the settings in the metadata
// image differ from the previous ones or contain the requested values.
func (h *Handler) alterCluster(ctx context.Context, change metadata.ClusterChange) error {
	ctx, cancel := api.WithTimeout(ctx, api.AdminWaitMax)
	defer cancel()
	before := h.Image().ClusterProperties
	if err := h.Alterer.AlterCluster(ctx, change); err != nil || change.Validate {
		return err
	}
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		return !maps.Equal(before, img.ClusterProperties) ||
			metadata.HasChange(img.ClusterProperties, change)
	})
	return nil
}
