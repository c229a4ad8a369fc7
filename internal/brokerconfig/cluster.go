package brokerconfig

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

type spec = v1alpha1.LogClusterSpec

// clusterRows returns the rows for settings with a field of their own. The value ranges are the
// same as in the LogCluster's schema; a test compares them.
func clusterRows() []*Property {
	rows := append(groupRows(), offsetsRows()...)
	rows = append(rows, groupBoundRows()...)
	rows = append(rows, cleanerRows()...)
	rows = append(rows, transactionFieldRows()...)
	rows = append(rows,
		&Property{
			Name: autoCreateTopics, Type: "boolean", Default: "false",
			Field: "spec.autoCreateTopics",
			Doc: "Create a topic when a client requests its metadata and allows its creation. " +
				"No topic is created while adminAPI is ReadOnly.",
			field: flag(func(s *spec) **bool { return &s.AutoCreateTopics }),
		},
		&Property{
			Name: "default.replication.factor", Type: "int", Default: "1",
			Field: "spec.topicDefaults.replicas",
			Doc:   "The number of replicas of a topic that sets none.",
			field: count(1, 15,
				func(s *spec) **int32 { return &group(&s.TopicDefaults).Replicas }),
		},
		&Property{
			Name: "num.partitions", Type: "int", Default: "1",
			Field: "spec.topicDefaults.partitions",
			Doc: "The number of partitions of a topic that is created without one. It has no " +
				"effect on an existing topic.",
			field: count(1, 10000,
				func(s *spec) **int32 { return &group(&s.TopicDefaults).Partitions }),
		},
		&Property{
			Name: "replica.lag.time.max.ms", Type: "long", Default: "10000",
			Field: "spec.replication.maxLag",
			Doc: "How long a follower may be behind its leader before the leader removes it from " +
				"the ISR.",
			field: duration(time.Millisecond, time.Second, time.Hour,
				func(s *spec) **metav1.Duration { return &group(&s.Replication).MaxLag }),
		},
	)
	for _, row := range rows {
		row.Doc += " Allowed: " + row.field.allowed + "."
	}
	return rows
}

// milliseconds returns a field of spec.groups that is a duration and whose setting is in
// milliseconds.
func milliseconds(lowest, highest time.Duration,
	locate func(*v1alpha1.Groups) **metav1.Duration) *field {
	return duration(time.Millisecond, lowest, highest,
		func(s *spec) **metav1.Duration { return locate(group(&s.Groups)) })
}

func groupRows() []*Property {
	return []*Property{
		{
			Name: "group.consumer.assignment.interval.ms", Type: "int", Default: "1000",
			Field: "spec.groups.consumerAssignmentInterval",
			Doc:   "The minimum time between two assignments of a group of the consumer protocol.",
			field: milliseconds(0, 15*time.Second, func(g *v1alpha1.Groups) **metav1.Duration {
				return &g.ConsumerAssignmentInterval
			}),
		},
		{
			Name: "group.consumer.heartbeat.interval.ms", Type: "int", Default: "5000",
			Field: "spec.groups.consumerHeartbeatInterval",
			Doc:   "The heartbeat interval of members of the consumer protocol.",
			field: milliseconds(shortestConsumerInterval, longestConsumerInterval,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.ConsumerHeartbeatInterval }),
		},
		{
			Name: "group.consumer.session.timeout.ms", Type: "int", Default: "45000",
			Field: "spec.groups.consumerSessionTimeout",
			Doc: "The time without a heartbeat after which a member of the consumer protocol is " +
				"removed.",
			field: milliseconds(shortestConsumerSession, longestConsumerSession,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.ConsumerSessionTimeout }),
		},
		{
			Name: "group.initial.rebalance.delay.ms", Type: "int", Default: "3000",
			Field: "spec.groups.initialRebalanceDelay",
			Doc:   "How long the first rebalance of an empty group waits for further members.",
			field: milliseconds(0, 5*time.Minute,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.InitialRebalanceDelay }),
		},
		{
			Name: "group.max.session.timeout.ms", Type: "int", Default: "1800000",
			Field: "spec.groups.maxSessionTimeout",
			Doc:   "The longest session timeout of a member of the classic protocol.",
			field: milliseconds(6*time.Second, 24*time.Hour,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.MaxSessionTimeout }),
		},
		{
			Name: groupMaxSize, Type: "int", Default: "2147483647", Field: "spec.groups.maxMembers",
			Doc: "The largest number of members of a group.",
			field: count(1, math.MaxInt32,
				func(s *spec) **int32 { return &group(&s.Groups).MaxMembers }),
		},
		{
			Name: "group.min.session.timeout.ms", Type: "int", Default: "6000",
			Field: "spec.groups.minSessionTimeout",
			Doc:   "The shortest session timeout of a member of the classic protocol.",
			field: milliseconds(time.Millisecond, 30*time.Minute,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.MinSessionTimeout }),
		},
	}
}

// Bounds on the settings of the consumer protocol.
const (
	shortestConsumerInterval, longestConsumerInterval = 100 * time.Millisecond, time.Hour
	shortestConsumerSession, longestConsumerSession   = time.Second, 24 * time.Hour
)

func offsetsRows() []*Property {
	return []*Property{
		{
			Name: "offset.metadata.max.bytes", Type: "int", Default: "4096",
			Field: "spec.groups.maxOffsetMetadata",
			Doc:   "The largest metadata of a committed offset.",
			field: size(0, 30<<10, func(s *spec) **resource.Quantity {
				return &group(&s.Groups).MaxOffsetMetadata
			}),
		},
		{
			Name: "offsets.retention.check.interval.ms", Type: "long", Default: "600000",
			Field: "spec.groups.offsetsCheckInterval",
			Doc:   "How often expired offsets are removed.",
			field: milliseconds(time.Second, 24*time.Hour,
				func(g *v1alpha1.Groups) **metav1.Duration { return &g.OffsetsCheckInterval }),
		},
		{
			Name: "offsets.retention.minutes", Type: "int", Default: "10080",
			Field: "spec.groups.offsetsRetention",
			Doc: "How long committed offsets are kept after their group has no members, or none " +
				"that is subscribed to their topic.",
			field: duration(time.Minute, time.Minute, 999999*time.Hour,
				func(s *spec) **metav1.Duration { return &group(&s.Groups).OffsetsRetention }),
		},
		{
			Name: "offsets.topic.num.partitions", Type: "int", Default: "50",
			Field: "spec.groups.offsetsTopic.partitions",
			Doc: "The number of partitions of __consumer_offsets when it is created. It has no " +
				"effect on an existing topic.",
			field: count(1, 10000, func(s *spec) **int32 {
				return &group(&group(&s.Groups).OffsetsTopic).Partitions
			}),
		},
		{
			Name: "offsets.topic.replication.factor", Type: "short", Default: "3",
			Field: "spec.groups.offsetsTopic.replicas",
			Doc: "The number of replicas of __consumer_offsets when it is created, by default at " +
				"most the number of brokers. It has no effect on an existing topic.",
			field: count(1, 15, func(s *spec) **int32 {
				return &group(&group(&s.Groups).OffsetsTopic).Replicas
			}),
		},
	}
}

func cleanerRows() []*Property {
	return []*Property{
		{
			Name: "log.cleaner.dedupe.buffer.size", Type: "long", Default: "134217728",
			Field: "spec.cleaner.memory",
			Doc:   "The memory that all worker slots of the cleaner together may use.",
			field: size(1<<20, math.MaxInt64, func(s *spec) **resource.Quantity {
				return &group(&s.Cleaner).Memory
			}),
		},
		{
			Name: "log.cleaner.io.max.bytes.per.second", Type: "double", Default: rateUnlimited,
			Field: "spec.cleaner.ioRate",
			Doc:   "The limit of the cleaner's reads plus writes.",
			field: rate(1<<10, func(s *spec) **resource.Quantity {
				return &group(&s.Cleaner).IORate
			}),
		},
		{
			Name: logCleanerThreads, Type: "int", Default: "1", Field: "spec.cleaner.workers",
			Doc: "The number of the cleaner's worker slots; 0 disables the cleaner.",
			field: count(0, 64,
				func(s *spec) **int32 { return &group(&s.Cleaner).Workers }),
		},
	}
}
