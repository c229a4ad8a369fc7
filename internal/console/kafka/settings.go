package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Setting is one topic setting.
type Setting struct {
	Name, Value string
	// Source is the place where the value is set: "topic", "cluster" or "default".
	Source string
	// Overridden is the value that Value overrides; "" if there is none.
	Overridden string
}

// Settings returns a topic's settings, sorted by name. Settings that differ from the default come
// first.
func (c *Client) Settings(ctx context.Context, topic string) ([]Setting, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	described, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describe settings of topic %s: %w", topic, err)
	}
	if len(described) != 1 {
		return nil, errors.New("describe settings: the broker did not respond")
	}
	if described[0].Err != nil {
		return nil, fmt.Errorf("describe settings of topic %s: %w", topic, described[0].Err)
	}
	var settings []Setting
	for _, config := range described[0].Configs {
		s := Setting{Name: config.Key, Value: config.MaybeValue(), Source: source(config.Source)}
		for _, other := range config.Synonyms {
			if other.Source != config.Source {
				s.Overridden = text(other.Value)
				break
			}
		}
		settings = append(settings, s)
	}
	slices.SortFunc(settings, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(rank(a.Source), rank(b.Source)), cmp.Compare(a.Name, b.Name))
	})
	return settings, nil
}

// source returns the name of a value's source for Setting.Source.
func source(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	return "cluster"
}

func rank(source string) int { return slices.Index([]string{"topic", "cluster", "default"}, source) }

// Disk is the data directory of one broker.
type Disk struct {
	Broker             int32
	Dir                string
	LogBytes           int64 // size of the logs
	TotalBytes, Usable int64 // of the volume; -1: unknown
	Replicas           int
	Err                error
}

// Disks returns the data directories of all brokers, sorted by broker.
func (c *Client) Disks(ctx context.Context) ([]Disk, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := c.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil && len(all) == 0 {
		return nil, fmt.Errorf("describe log directories: %w", err)
	}
	var disks []Disk
	for broker, dirs := range all {
		for _, dir := range dirs {
			disk := Disk{Broker: broker, Dir: dir.Dir, LogBytes: dir.Size(),
				TotalBytes: dir.TotalBytes, Usable: dir.UsableBytes, Err: dir.Err}
			for _, partitions := range dir.Topics {
				disk.Replicas += len(partitions)
			}
			disks = append(disks, disk)
		}
	}
	slices.SortFunc(disks, func(a, b Disk) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Dir, b.Dir))
	})
	return disks, nil
}
