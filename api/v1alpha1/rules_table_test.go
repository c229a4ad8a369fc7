package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

// Messages that several entries share.
const (
	notNegative    = "write a duration in h, m, s and ms, in this order, not negative, such as 10m or 24h"
	atLeastOneLag  = "write a duration in h, m, s and ms, in this order, at least 1ms, such as 24h or 168h"
	retentionTime  = "write a duration in h, m, s and ms, in this order, not negative, such as 168h, or -1s to keep records forever"
	retentionSize  = "write a size in bytes, 0 to 9223372036854775807, such as 10Gi, or -1 for no limit"
	timestampLimit = "write a duration in h, m, s and ms, in this order, not negative, such as 24h, or -1s for no limit"
	segmentSize    = "write a segment size of 1Ki to 2147483647 bytes, such as 512Mi or 1Gi"
	messageSize    = "write a size of 1 to 2147483647 bytes, such as 1Mi"
	topicNameText  = "topicName may hold letters, digits, dots, underscores and dashes only, and must not be '.' or '..'"
	topicNameKept  = "topicName cannot be set, changed or removed later: make a new Topic"
	classKept      = "className cannot be removed: write the name of a StorageClass"
	clusterName    = "metadata.name must begin with a letter, hold only lower-case letters, digits and dashes, and have at most 40 characters: " +
		"Services and Pods are named after it"
	setKept     = "cluster, index and count of a PartitionSet cannot be changed: they decide which partitions belong to the set"
	noRetention = "this topic has no retention, as committed offsets or transactional ids would " +
		"expire: remove retention"
	levelless = "only gzip, lz4 and zstd have levels: remove level, or choose one of these types"
)

func creations() []TableEntry {
	topic := func(spec, field, message string) TableEntry {
		return Entry("Topic "+spec, "Topic", "spec: "+spec, "spec."+field, message)
	}
	cluster := func(spec, field, message string) TableEntry {
		return Entry("LogCluster "+spec, "LogCluster", "spec: "+spec, "spec."+field, message)
	}
	level := "compression.level"
	entries := []TableEntry{
		topic("{compaction: {minDirtyPercent: 100.5}}", "compaction.minDirtyPercent",
			"write a percentage from 0 to 100, such as 50 or 0.1"),
		topic("{compaction: {minDirtyPercent: -0.1}}", "compaction.minDirtyPercent",
			"write a percentage from 0 to 100, such as 50 or 0.1"),
		topic("{compaction: {minDirtyPercent: ten}}", "compaction.minDirtyPercent",
			"must be of type number"),
		topic("{maxRecordSize: 0}", "maxRecordSize",
			"write a size of 1 to 2147483639 bytes, such as 10Mi"),
		topic("{maxRecordSize: 2147483640}", "maxRecordSize",
			"write a size of 1 to 2147483639 bytes, such as 10Mi"),
		topic("{compression: {level: 5}}", level,
			"level belongs to a type: write type, or remove level"),
		topic("{compression: {type: gzip, level: 0}}", level,
			"the level of gzip must be 1 to 9, or -1 for its default"),
		topic("{compression: {type: gzip, level: 10}}", level,
			"the level of gzip must be 1 to 9, or -1 for its default"),
		topic("{compression: {type: lz4, level: 0}}", level, "the level of lz4 must be 1 to 17"),
		topic("{compression: {type: lz4, level: 18}}", level, "the level of lz4 must be 1 to 17"),
		topic("{compression: {type: zstd, level: 23}}", level,
			"the level of zstd must be -131072 to 22"),
		topic("{compression: {type: zstd, level: -131073}}", level,
			"the level of zstd must be -131072 to 22"),
		topic("{compression: {type: snappy, level: 1}}", level, levelless),
		topic("{compression: {type: uncompressed, level: 1}}", level, levelless),
		topic("{compression: {type: producer, level: 1}}", level, levelless),
		topic("{compression: {type: lz4, clean: {type: snappy, level: 1}}}",
			"compression.clean.level", levelless),
		topic("{compression: {type: lz4, clean: {type: lz4, level: 18}}}",
			"compression.clean.level", "the level of lz4 must be 1 to 17"),
		topic(
			"{compression: {type: lz4, clean: {type: producer}}}",
			"compression.clean.type",
			"the cleaner's codec must be uncompressed, gzip, snappy, lz4 or zstd: remove clean to keep each batch's own codec",
		),

		topic("{replicas: 2, minInSyncReplicas: 3}", "minInSyncReplicas",
			"minInSyncReplicas must not be more than replicas: lower it, or raise replicas"),
		topic("{compaction: {minLag: 2h, maxLag: 1h}}", "compaction.minLag",
			"minLag must not be longer than maxLag: lower minLag, or raise maxLag"),
		topic("{compaction: {minLag: -1s}}", "compaction.minLag", notNegative),
		topic("{compaction: {minLag: 5d}}", "compaction.minLag", notNegative),
		topic("{compaction: {minLag: ''}}", "compaction.minLag", notNegative),
		topic("{compaction: {minLag: 1s1h}}", "compaction.minLag", notNegative),
		// This value overflows Go's time.Duration.
		topic("{compaction: {minLag: 9999999h}}", "compaction.minLag", notNegative),
		topic("{compaction: {maxLag: 0s}}", "compaction.maxLag", atLeastOneLag),
		topic("{compaction: {tombstoneRetention: soon}}", "compaction.tombstoneRetention",
			"write a duration in h, m, s and ms, in this order, not negative, such as 24h"),
		topic("{retention: {time: -2s}}", "retention.time", retentionTime),
		topic("{retention: {size: -2}}", "retention.size", retentionSize),
		topic("{retention: {size: '9223372036854775808'}}", "retention.size", retentionSize),
		topic("{retention: {size: much}}", "retention.size", retentionSize),
		topic("{segment: {size: 1023}}", "segment.size", segmentSize),
		topic("{segment: {size: 2Gi}}", "segment.size", segmentSize),
		topic("{segment: {maxAge: 0s}}", "segment.maxAge",
			"write a duration in h, m, s and ms, in this order, at least 1ms, such as 168h"),
		topic("{segment: {jitter: -1s}}", "segment.jitter",
			"write a duration in h, m, s and ms, in this order, not negative, such as 10m"),
		topic("{segment: {indexSize: 1023}}", "segment.indexSize",
			"write a size of 1Ki to 2147483647 bytes, such as 10Mi"),
		topic("{segment: {indexInterval: -1}}", "segment.indexInterval",
			"write a size of 0 to 2147483647 bytes, such as 4Ki"),
		topic("{timestampLimits: {past: -2s}}", "timestampLimits.past", timestampLimit),
		topic("{timestampLimits: {future: soon}}", "timestampLimits.future", timestampLimit),
		topic(
			"{withoutEffect: {flushInterval: 999ms}}",
			"withoutEffect.flushInterval",
			"write a duration of at least 1s, such as 10s, or -1s for no limit: disks are synced within about a second anyhow; for more, set durability to Fsync",
		),
		topic("{withoutEffect: {fileDeleteDelay: -1s}}", "withoutEffect.fileDeleteDelay",
			"write a duration in h, m, s and ms, in this order, not negative, such as 1m"),
		topic("{maxMessageSize: 0}", "maxMessageSize", messageSize),
		topic("{maxMessageSize: 2Gi}", "maxMessageSize", messageSize),
		topic("{topicName: 'a b'}", "topicName", topicNameText),
		topic("{topicName: '..'}", "topicName", topicNameText),

		cluster("{brokers: 1, topicDefaults: {replicas: 2}}", "topicDefaults.replicas",
			"topicDefaults.replicas must not be more than brokers: lower it, or raise brokers"),
		cluster("{topicDefaults: {compression: {type: gzip, level: 10}}}",
			"topicDefaults.compression.level", "the level of gzip must be 1 to 9, or -1 for its default"),
		cluster("{image: 'my image'}", "image",
			"write the name of an image, such as registry.example.com/heartwood:1.0"),
		cluster("{image: 'https://registry.example.com/heartwood:1.0'}", "image",
			"write the name of an image, such as registry.example.com/heartwood:1.0"),
		cluster("{image: 'registry.example.com/Heartwood'}", "image",
			"write the name of an image, such as registry.example.com/heartwood:1.0"),
		cluster("{listeners: [{name: a, port: 9644}]}", "listeners[0].port",
			"ports 9091 (connections between brokers) and 9644 (HTTP) are reserved: choose another port"),
		cluster("{resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}",
			"resources.requests",
			"requests must not be more than limits: lower the request, or raise the limit of the same resource"),
		cluster("{resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}", "resources.requests",
			"requests must not be more than limits: lower the request, or raise the limit of the same resource"),
		cluster("{cleaner: {memory: 1Gi}, resources: {limits: {memory: 1Gi}}}", "cleaner.memory",
			"cleaner.memory, by default 128Mi, must be less than resources.limits.memory: lower it, or raise the limit"),
		cluster("{resources: {limits: {memory: 100Mi}}}", "cleaner.memory",
			"cleaner.memory, by default 128Mi, must be less than resources.limits.memory: lower it, or raise the limit"),
		cluster("{pod: {annotations: {heartwood.dev/restart: '1'}}}", "pod.annotations",
			"annotations of heartwood.dev are set by the operator: choose another prefix"),
		cluster("{pod: {labels: {app.kubernetes.io/name: other}}}", "pod.labels",
			"labels of heartwood.dev, app.kubernetes.io, apps.kubernetes.io and statefulset.kubernetes.io, "+
				"and controller-revision-hash, are set by Kubernetes and the operator: choose another label"),
		topic("{segment: {size: 1Ki, maxAge: 1ms}}", "segment.maxAge",
			"segments below 16Ki that are rolled more often than once a second exhaust the broker's files: raise size or maxAge"),
		topic("{topicName: __consumer_offsets, cleanupPolicy: Delete}", "cleanupPolicy",
			"cleanupPolicy of this topic must be Compact: with Delete, committed offsets or transactional ids would expire"),
		topic("{topicName: __transaction_state, retention: {size: 1Gi}}", "retention", noRetention),
		topic("{topicName: __consumer_offsets, cleanupPolicy: Compact, retention: {time: 1h}}",
			"retention", noRetention),
		cluster("{storage: {pressure: {warnPercent: 86}}}", "storage.pressure.warnPercent",
			"warnPercent must not be more than cleanPercent, by default 85: lower warnPercent, or raise cleanPercent"),
		cluster("{storage: {pressure: {cleanPercent: 90, rejectPercent: 89}}}", "storage.pressure.cleanPercent",
			"cleanPercent must not be more than rejectPercent, by default 92: lower cleanPercent, or raise rejectPercent"),
		cluster("{storage: {pressure: {rejectPercent: 101}}}", "storage.pressure.rejectPercent",
			"should be less than or equal to 100"),
		cluster("{storage: {size: 1Mi}}", "storage.size",
			"write a volume size of at least 100Mi, such as 10Gi"),
		cluster("{cleaner: {memory: 1Ki}}", "cleaner.memory",
			"write a size of at least 1Mi, such as 128Mi"),
		cluster("{cleaner: {ioRate: 0}}", "cleaner.ioRate",
			"write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"),
		cluster("{scrub: {interval: 59m}}", "scrub.interval",
			"write Never, or a duration of 1h to 8760h, such as 168h"),
		cluster("{scrub: {rate: 0}}", "scrub.rate",
			"write at least 1Ki bytes a second, such as 20Mi; interval: Never turns the scrub off"),
		cluster("{replication: {maxLag: 10ms}}", "replication.maxLag",
			"write a duration of 1s to 1h, such as 10s"),
		cluster("{replication: {maxLag: 2h}}", "replication.maxLag",
			"write a duration of 1s to 1h, such as 10s"),
		cluster("{groups: {minSessionTimeout: 31m}}", "groups.minSessionTimeout",
			"write a duration of 1ms to 30m, such as 6s"),
		cluster("{groups: {maxSessionTimeout: 5s}}", "groups.maxSessionTimeout",
			"write a duration of 6s to 24h, such as 30m"),
		cluster(
			"{groups: {minSessionTimeout: 10s, maxSessionTimeout: 9s}}",
			"groups.minSessionTimeout",
			"minSessionTimeout must not be longer than maxSessionTimeout: lower it, or raise maxSessionTimeout",
		),
		cluster("{groups: {initialRebalanceDelay: 6m}}", "groups.initialRebalanceDelay",
			"write a duration of 0s to 5m, such as 3s"),
		cluster("{groups: {offsetsRetention: 0s}}", "groups.offsetsRetention",
			"write a duration of 1m to 999999h, such as 168h"),
		cluster("{transactions: {maxTimeout: 169h}}", "transactions.maxTimeout",
			"write a duration of 1s to 168h, such as 15m"),
		cluster("{transactions: {idExpiration: 30s}}", "transactions.idExpiration",
			"write a duration of 1m to 596h, such as 168h"),
		cluster("{groups: {offsetsCheckInterval: ''}}", "groups.offsetsCheckInterval",
			"write a duration of 1s to 24h, such as 10m"),
		cluster("{groups: {consumerSessionTimeout: 10ms}}", "groups.consumerSessionTimeout",
			"write a duration of 1s to 24h, such as 45s"),
		cluster("{groups: {consumerHeartbeatInterval: 2h}}", "groups.consumerHeartbeatInterval",
			"write a duration of 100ms to 1h, such as 5s"),
		cluster(
			"{groups: {consumerHeartbeatInterval: 45s}}",
			"groups.consumerHeartbeatInterval",
			"consumerHeartbeatInterval must be shorter than consumerSessionTimeout: lower it, or raise consumerSessionTimeout",
		),
		cluster(
			"{groups: {consumerSessionTimeout: 5s}}",
			"groups.consumerSessionTimeout",
			"consumerSessionTimeout must be longer than consumerHeartbeatInterval, which is 5s: raise it, or set consumerHeartbeatInterval",
		),
		cluster(
			"{groups: {minConsumerSessionTimeout: 46s}}",
			"groups.minConsumerSessionTimeout",
			"minConsumerSessionTimeout must not be longer than consumerSessionTimeout, by default 45s: lower it, or raise consumerSessionTimeout",
		),
		cluster(
			"{groups: {maxConsumerSessionTimeout: 44s}}",
			"groups.maxConsumerSessionTimeout",
			"maxConsumerSessionTimeout must not be shorter than consumerSessionTimeout, by default 45s: raise it, or lower consumerSessionTimeout",
		),
		cluster(
			"{groups: {consumerHeartbeatInterval: 1s, minConsumerHeartbeatInterval: 2s}}",
			"groups.minConsumerHeartbeatInterval",
			"minConsumerHeartbeatInterval must not be longer than consumerHeartbeatInterval, by default 5s: lower it, or raise consumerHeartbeatInterval",
		),
		cluster(
			"{groups: {maxConsumerHeartbeatInterval: 4s}}",
			"groups.maxConsumerHeartbeatInterval",
			"maxConsumerHeartbeatInterval must not be shorter than consumerHeartbeatInterval, by default 5s: raise it, or lower consumerHeartbeatInterval",
		),
		cluster(
			"{groups: {overrides: [{group: a}, {group: b, consumerHeartbeatInterval: 45s}]}}",
			"groups.overrides",
			"consumerHeartbeatInterval must be shorter than consumerSessionTimeout in every group: an override that sets only one of them uses the other one of groups",
		),
		cluster(
			"{groups: {consumerHeartbeatInterval: 10s, overrides: [{group: b, consumerSessionTimeout: 10s}]}}",
			"groups.overrides",
			"consumerHeartbeatInterval must be shorter than consumerSessionTimeout in every group: an override that sets only one of them uses the other one of groups",
		),
		cluster(
			"{groups: {overrides: [{group: b, consumerSessionTimeout: 9s, consumerHeartbeatInterval: 9s}]}}",
			"groups.overrides",
			"consumerHeartbeatInterval must be shorter than consumerSessionTimeout in every group: an override that sets only one of them uses the other one of groups",
		),
		cluster(
			"{groups: {overrides: [{group: b, consumerSessionTimeout: 10ms}]}}",
			"groups.overrides[0].consumerSessionTimeout",
			"write a duration of 1s to 24h, such as 45s",
		),
		cluster(
			"{groups: {overrides: [{group: b, consumerHeartbeatInterval: soon}]}}",
			"groups.overrides[0].consumerHeartbeatInterval",
			"write a duration of 100ms to 1h, such as 5s",
		),
		cluster(
			"{groups: {overrides: [{group: ''}]}}",
			"groups.overrides[0].group",
			"at least 1 chars long",
		),
		cluster("{groups: {consumerAssignmentInterval: 16s}}",
			"groups.consumerAssignmentInterval", "write a duration of 0s to 15s, such as 1s"),
		cluster("{groups: {overrides: [{group: b, consumerAssignmentInterval: 16s}]}}",
			"groups.overrides[0].consumerAssignmentInterval",
			"write a duration of 0s to 15s, such as 1s"),
		cluster("{groups: {maxConsumerSessionTimeout: 25h}}", "groups.maxConsumerSessionTimeout",
			"write a duration of 1s to 24h, such as 1m"),
		cluster("{groups: {maxConsumerHeartbeatInterval: 61m}}",
			"groups.maxConsumerHeartbeatInterval", "write a duration of 100ms to 1h, such as 15s"),
		cluster("{groups: {maxOffsetMetadata: 31Ki}}", "groups.maxOffsetMetadata",
			"write a size of 0 to 30Ki, such as 4Ki"),
		cluster(
			"{brokers: 2, groups: {offsetsTopic: {replicas: 3}}}",
			"groups.offsetsTopic.replicas",
			"groups.offsetsTopic.replicas must not be more than brokers: lower it, or raise brokers",
		),
		cluster("{replication: {catchUpRate: 0}}", "replication.catchUpRate",
			"write at least 1Ki bytes a second, such as 20Mi; leave it out for no limit"),
		cluster("{rackKey: 'not a label'}", "rackKey",
			"rackKey must be the key of a node label, such as topology.kubernetes.io/zone"),

		Entry(
			"a Topic whose name is too long",
			"Topic",
			"metadata: {name: "+strings.Repeat("a", 250)+"}",
			"",
			"metadata.name must have at most 249 characters, as it is the topic's name in Kafka: choose a shorter one",
		),
	}
	for _, name := range []string{"1st", "with.dots", strings.Repeat("a", 41)} {
		entries = append(entries,
			Entry("LogCluster "+name, "LogCluster", "metadata: {name: '"+name+"'}", "",
				clusterName))
	}
	return entries
}

func changes() []TableEntry {
	return []TableEntry{
		Entry(
			"fewer partitions",
			"Topic",
			"spec: {partitions: 3}",
			"spec: {partitions: 2}",
			"spec.partitions",
			"partitions cannot shrink, as records would be lost: keep their number, or make a new Topic",
		),
		Entry(
			"no number of partitions",
			"Topic",
			"spec: {partitions: 1}",
			"spec: {partitions: null}",
			"spec.partitions",
			"partitions cannot be removed, as a topic keeps its number of partitions: write the present number",
		),
		Entry(
			"more partitions of the offsets topic",
			"Topic",
			"spec: {topicName: __consumer_offsets, partitions: 50}",
			"spec: {partitions: 60}",
			"spec.partitions",
			"the number of partitions of this topic cannot be changed: it determines the partition of each group, so groups would lose their offsets",
		),
		Entry("no policy of the offsets topic", "Topic",
			"spec: {topicName: __consumer_offsets, cleanupPolicy: Compact}",
			"spec: {cleanupPolicy: null}", "spec.cleanupPolicy",
			"cleanupPolicy of this topic cannot be removed: keep Compact"),
		Entry("retention of the offsets topic", "Topic",
			"spec: {topicName: __consumer_offsets}", "spec: {retention: {time: 1h}}",
			"spec.retention", noRetention),
		Entry("another cluster", "Topic", "{}", "spec: {cluster: other}", "spec.cluster",
			"cluster cannot be changed: make a new Topic in the other cluster"),
		Entry("another topicName", "Topic", "spec: {topicName: A}", "spec: {topicName: B}",
			"spec.topicName", topicNameKept),
		Entry("added topicName", "Topic", "{}", "spec: {topicName: B}", "spec",
			topicNameKept),
		Entry("removed topicName", "Topic", "spec: {topicName: A}", "spec: {topicName: null}",
			"spec", topicNameKept),

		Entry("fewer brokers than the defaults need", "LogCluster",
			"spec: {brokers: 3, topicDefaults: {replicas: 3}}", "spec: {brokers: 2}",
			"spec.topicDefaults.replicas",
			"topicDefaults.replicas must not be more than brokers: lower it, or raise brokers"),
		Entry("removed class", "LogCluster", "spec: {storage: {className: a}}",
			"spec: {storage: {className: null}}", "spec.storage", classKept),

		Entry("another index of a PartitionSet (other assignments are allowed)", "PartitionSet", "{}",
			"spec: {index: 1, assignments: {orders/1: '0 abcdefgh'}}", "spec", setKept),
		Entry("another count", "PartitionSet", "{}", "spec: {count: 32}", "spec", setKept),
		Entry("another cluster of a PartitionSet", "PartitionSet", "{}", "spec: {cluster: other}",
			"spec", setKept),
	}
}

// accepted returns valid manifests: values at each bound, and valid values that a wrong rule might
// reject.
func accepted() []TableEntry {
	var entries []TableEntry
	for _, spec := range []string{
		"{}",
		"{compression: {type: gzip, level: 1}}", "{compression: {type: gzip, level: -1}}",
		"{compression: {clean: {type: zstd}}}", "{compression: {type: gzip, level: 9}}",
		"{compression: {type: lz4, level: 1}}", "{compression: {type: lz4, level: 17}}",
		"{compression: {type: zstd, level: -131072}}", "{compression: {type: zstd, level: 22}}",
		"{topicName: __consumer_offsets}", "{topicName: __transaction_state, cleanupPolicy: Compact}",
		"{compression: {type: producer}}", "{compression: {type: snappy}}",
		"{compression: {type: uncompressed}}",
		"{replicas: 3, minInSyncReplicas: 3}", "{minInSyncReplicas: 3}",
		"{compaction: {minLag: 1h, maxLag: 60m}}", "{compaction: {minLag: 0s}}",
		"{compaction: {maxLag: 1ms}}",
		"{compaction: {minLag: 1h30m0.5s}}", "{compaction: {minLag: 1.5ms, maxLag: 999999h}}",
		"{retention: {time: -1s, size: -1}}", "{retention: {time: 0s, size: '0'}}",
		"{retention: {size: '-1'}}",
		"{retention: {size: '9223372036854775807'}}", "{retention: {size: 1.5Gi}}",
		"{segment: {size: 16Ki, maxAge: 1ms}}", "{segment: {size: 2147483647}}",
		"{maxMessageSize: 1}",
		"{topicName: A._-9}", "{topicName: ...}",
		"{initialReplicas: [{partition: 9999, replicas: [2, 0]}, {partition: 0, replicas: [0]}]}",
		// As in Kafka, settings that apply only to another cleanup policy are accepted.
		"{cleanupPolicy: Compact, retention: {time: 24h}}",
		"{cleanupPolicy: Delete, compaction: {minDirtyPercent: 1}}",
		"{cleanupPolicy: DeleteCompact}", "{maxRecordSize: 2147483639}", "{maxRecordSize: 10Mi}",
		"{compaction: {minDirtyPercent: 0.1}}", "{compaction: {minDirtyPercent: 12.5}}",
		"{compaction: {minDirtyPercent: 0}}", "{compaction: {minDirtyPercent: 100.0}}",
	} {
		entries = append(entries, Entry("Topic "+spec, "Topic", "spec: "+spec))
	}
	for _, spec := range []string{
		"{}", "{brokers: 2, topicDefaults: {replicas: 2}}", "{storage: {size: 100Mi}}",
		"{cleaner: {workers: 0, memory: 1Mi, ioRate: 1Ki}}",
		"{scrub: {interval: 1h, rate: 1Ki}}", "{scrub: {interval: Never}}",
		"{replication: {maxLag: 1h, catchUpRate: 1Ki}}",
		"{brokers: 1, groups: {minSessionTimeout: 1ms, maxSessionTimeout: 24h, initialRebalanceDelay: 0s, maxMembers: 1, maxOffsetMetadata: 0, offsetsTopic: {replicas: 1, partitions: 10000}}}",
		"{brokers: 1, groups: {consumerSessionTimeout: 1s, consumerHeartbeatInterval: 999ms}}",
		"{groups: {minConsumerSessionTimeout: 1s, maxConsumerSessionTimeout: 24h, minConsumerHeartbeatInterval: 100ms, maxConsumerHeartbeatInterval: 1h}}",
		"{groups: {consumerSessionTimeout: 2s, consumerHeartbeatInterval: 1s, overrides: [{group: a b, consumerSessionTimeout: 1h}, {group: c, consumerSessionTimeout: 3s, consumerHeartbeatInterval: 2999ms}]}}",
		"{brokers: 2, cordoned: [0, 1], drain: [1], rebalance: {policy: Manual, concurrentPerBroker: 100, rate: 1Ki, window: {start: '23:59', end: '00:00'}}}",
		"{rackKey: zone}", "{rackKey: topology.kubernetes.io/zone}",
	} {
		entries = append(entries, Entry("LogCluster "+spec, "LogCluster", "spec: "+spec))
	}
	return append(entries, Entry("a LogCluster with the longest name", "LogCluster",
		"metadata: {name: "+strings.Repeat("a", 40)+"}"))
}
