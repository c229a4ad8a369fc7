package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// OffsetsTopic is the internal topic that stores groups and their offsets.
const OffsetsTopic = metadata.OffsetsTopic

// These are reasons why this broker cannot serve a group now. Clients retry after all three errors;
// after ErrNotCoordinator they first look up the coordinator again.
var (
	ErrNotCoordinator = runtime.ErrNotCoordinator
	ErrLoading        = runtime.ErrLoading
	ErrNotAvailable   = runtime.ErrNotAvailable
)

// Options configures Groups. All fields except Config, Registry and Logger must be set.
type Options struct {
	NodeID   int32
	Replicas *replica.Set
	Image    func() *metadata.Image
	Await    func(ctx context.Context, enough func(*metadata.Image) bool)
	Admin    metadata.Admin
	Config   group.Config          // default settings, which the LogCluster's settings override
	Registry prometheus.Registerer // optional
	Logger   *slog.Logger          // logger; by default, messages are discarded
}

// Groups is this broker's group coordinator.
type Groups struct {
	opts    Options
	runtime *shards
	topics  atomic.Pointer[imageTopics]
	metrics metrics

	mu     sync.Mutex
	loaded map[*groupShard]struct{}
}

type (
	shards = runtime.Runtime[*groupShard, group.TimerKey, group.Result]
	shard  = runtime.Shard[*groupShard, group.TimerKey, group.Result]
)

// NewGroups returns a coordinator without shards. Close stops the coordinator.
func NewGroups(opts Options) *Groups {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Groups{opts: opts, metrics: newMetrics(), loaded: map[*groupShard]struct{}{}}
	g.runtime = runtime.New(runtime.Options[*groupShard, group.TimerKey, group.Result]{
		NodeID: opts.NodeID,
		Topic: metadata.NewTopic{
			// With -1, Admin chooses the numbers, as for other internal topics.
			Name: OffsetsTopic, Partitions: -1, Replicas: -1,
			Properties: map[string]string{
				"cleanup.policy": "compact", "compression.type": "producer",
				"segment.bytes": "104857600",
			},
		},
		NewMachine: g.newShard,
		ConfigChanged: func(before, now *metadata.Image) bool {
			return settingsOf(before).differ(settingsOf(now))
		},
		ExpireInterval: expireInterval,
		Replicas:       opts.Replicas, Image: opts.Image, Await: opts.Await, Admin: opts.Admin,
		Appends: g.metrics.appends, LoadSeconds: g.metrics.load, Logger: opts.Logger,
	})
	if opts.Registry != nil {
		g.metrics.register(opts.Registry, g)
	}
	return g
}

// Apply starts and stops shards, so that there is one for each partition of the offsets topic that
// this broker leads in the image. The caller calls Apply from one goroutine, after
// replica.Set.Apply has applied the same image. Apply does not block.
func (g *Groups) Apply(img *metadata.Image) { g.runtime.Apply(img) }

// Close stops all shards. Waiting requests return ErrNotCoordinator.
func (g *Groups) Close() { g.runtime.Close() }

// Find returns the broker that coordinates a group. It creates the offsets topic if the topic does
// not exist.
func (g *Groups) Find(ctx context.Context, groupID string) (metadata.Broker, error) {
	if err := group.CheckID(groupID); err != nil {
		return metadata.Broker{}, err
	}
	return g.runtime.Find(ctx, groupID)
}

// Partition returns the partition of the offsets topic that stores a group. It creates the topic if
// the topic does not exist.
func (g *Groups) Partition(ctx context.Context, groupID string) (int32, error) {
	if _, err := g.Find(ctx, groupID); err != nil {
		return 0, err
	}
	topic := g.opts.Image().Topic(OffsetsTopic)
	if topic == nil || len(topic.Partitions) == 0 {
		return 0, ErrNotAvailable
	}
	return runtime.PartitionFor(groupID, len(topic.Partitions)), nil
}

// Config returns the current settings of groups, with defaults for settings that are not
// configured.
func (g *Groups) Config() group.Config {
	return g.configFor(settingsOf(g.opts.Image())).WithDefaults()
}

// settings contains a metadata image's settings for groups.
type settings struct {
	cluster   metadata.Groups
	overrides map[string]metadata.GroupOverride // overrides by group id
}

func settingsOf(img *metadata.Image) settings { return settings{img.Groups, img.GroupOverrides} }

// differ reports whether two values of settings are different.
func (s settings) differ(o settings) bool {
	return s.cluster != o.cluster || !maps.Equal(s.overrides, o.overrides)
}

// configFor returns Options.Config, overridden by the settings in the LogCluster.
func (g *Groups) configFor(s settings) group.Config {
	c, cluster := g.opts.Config, s.cluster
	c.SessionMin = cmp.Or(cluster.SessionMin, c.SessionMin)
	c.SessionMax = cmp.Or(cluster.SessionMax, c.SessionMax)
	c.InitialDelay = cmp.Or(cluster.InitialDelay, c.InitialDelay)
	c.MembersMax = cmp.Or(cluster.MembersMax, c.MembersMax)
	c.MetadataBytesMax = cmp.Or(cluster.MetadataBytesMax, c.MetadataBytesMax)
	c.ConsumerSession = cmp.Or(cluster.ConsumerSession, c.ConsumerSession)
	c.ConsumerInterval = cmp.Or(cluster.ConsumerInterval, c.ConsumerInterval)
	c.ConsumerAssignment = cmp.Or(cluster.ConsumerAssignment, c.ConsumerAssignment)
	c.Retention = cmp.Or(cluster.OffsetsRetention, c.Retention)
	c.Overrides = make(map[string]group.Override, len(s.overrides))
	for id, o := range s.overrides {
		c.Overrides[id] = group.Override(o)
	}
	return c
}

// expireIntervalDefault is the default time between two searches for expired offsets (Kafka's
// offsets.retention.check.interval.ms).
const expireIntervalDefault = 10 * time.Minute

func expireInterval(img *metadata.Image) time.Duration {
	return cmp.Or(img.Groups.OffsetsCheckInterval, expireIntervalDefault)
}
