package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// This file contains the configs of groups (KIP-848) and of client metrics subscriptions (KIP-714).
// The LogCluster stores group configs. Client metrics subscriptions never exist, because the broker
// does not collect client metrics.

// configsOfGroup returns a group's configs. As in Kafka, the group does not have to exist.
func configsOfGroup(img *metadata.Image, group string) ([]config, error) {
	if group == "" {
		return nil, fmt.Errorf("%w: group name must not be empty", api.ErrInvalidRequest)
	}
	all := metadata.GroupConfigs(img.Groups, img.GroupOverrides[group])
	configs := make([]config, len(all))
	for i := range all {
		configs[i] = groupConfig(&all[i])
	}
	return configs, nil
}

// groupConfig returns a group config with its synonyms: the values of the group, the LogCluster and
// Kafka's default.
func groupConfig(c *metadata.GroupConfig) config {
	var from []synonym
	if c.Set {
		from = append(from, synonym{c.Name, millis(c.Value), kmsg.ConfigSourceGroupConfig})
	}
	if c.ClusterSet {
		from = append(from, synonym{c.BrokerName, millis(c.Cluster),
			kmsg.ConfigSourceDynamicDefaultBrokerConfig})
	}
	from = append(from, synonym{c.BrokerName, millis(c.Default), kmsg.ConfigSourceDefaultConfig})
	return config{topicconfig.Property{Name: c.Name, Value: millis(c.Value), Type: "int",
		Doc: c.Doc}, from[0].source, false, false, from}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// alterGroup changes a group's configs. It waits until the group's configs in the metadata image
// differ from the previous ones or equal the requested ones.
func (h *Handler) alterGroup(ctx context.Context, change metadata.TopicChange) error {
	if change.Name == "" {
		return fmt.Errorf("%w: default group resources are not allowed", api.ErrInvalidRequest)
	}
	ctx, cancel := api.WithTimeout(ctx, api.AdminWaitMax)
	defer cancel()
	img := h.Image()
	before := img.GroupOverrides[change.Name]
	after, err := before.Altered(img.Groups, change.Properties, change.Replace)
	if err != nil {
		return err
	}
	err = h.Alterer.AlterCluster(ctx, metadata.ClusterChange{Group: change.Name,
		Properties: change.Properties, Replace: change.Replace, Validate: change.Validate})
	if err != nil || change.Validate {
		return err
	}
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		now := img.GroupOverrides[change.Name]
		return now != before || now == after
	})
	return nil
}

// configsOfClientMetrics returns Kafka's default configs for a client metrics subscription. As in
// Kafka, the subscription does not have to exist.
func configsOfClientMetrics(name string) ([]config, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: client metrics subscription name must not be empty",
			api.ErrInvalidRequest)
	}
	standard := func(name, value, kind, doc string) config {
		return config{topicconfig.Property{Name: name, Value: value, Type: kind, Doc: doc},
			kmsg.ConfigSourceDefaultConfig, false, false, nil}
	}
	return []config{
		standard("interval.ms", "300000", "int", "How often a client sends its metrics."),
		standard("match", "", "list", "Which clients send metrics."),
		standard("metrics", "", "list", "The prefixes of the metrics that clients send."),
	}, nil
}

// alterClientMetrics rejects every change of a client metrics subscription except deletions, which
// have no effect.
func alterClientMetrics(change metadata.TopicChange) error {
	if change.Name == "" {
		return fmt.Errorf("%w: client metrics subscription name must not be empty",
			api.ErrInvalidRequest)
	}
	for _, p := range change.Properties {
		if p.Op != metadata.PropertyDelete {
			return fmt.Errorf("%w: %s cannot be set: the brokers do not collect metrics of clients",
				api.ErrInvalidRequest, p.Name)
		}
	}
	return nil
}
