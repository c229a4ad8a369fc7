package brokerconfig

// Names that are used in several places.
const (
	autoCreateTopics  = "auto.create.topics.enable"
	deleteTopicEnable = "delete.topic.enable"
	groupMaxSize      = "group.max.size"
	logCleanerThreads = "log.cleaner.threads"
	logSegmentBytes   = "log.segment.bytes"
)

// Settings that only the broker itself knows (Property.Own).
const (
	AdvertisedListeners = "advertised.listeners"
	BrokerID            = "broker.id"
	BrokerRack          = "broker.rack"
	InterBrokerListener = "inter.broker.listener.name"
	ListenerProtocols   = "listener.security.protocol.map"
	Listeners           = "listeners"
	LogDir              = "log.dir"
	LogDirs             = "log.dirs"
	NodeID              = "node.id"
)

// readOnlyRows returns the rows for settings that admin clients cannot change.
func readOnlyRows() []*Property {
	rows := append(ownRows(), derivedRows()...)
	rows = append(rows, fixedRows...)
	return append(rows, transactionRows()...)
}

// own returns the row for a setting that only the broker itself knows.
func own(name, kind, field, doc string) *Property {
	return &Property{Name: name, Type: kind, Field: field, Doc: doc, Own: true}
}

func ownRows() []*Property {
	const port = "spec.listeners[].port"
	return []*Property{
		own(AdvertisedListeners, "list", port, "The addresses that clients connect to."),
		own(BrokerID, "int", "", "The id of the broker, the same as node.id."),
		own(BrokerRack, "string", "spec.rackKey",
			"The rack of the broker: on Kubernetes the value of a label of its node."),
		own(InterBrokerListener, "string", "", "The listener that brokers replicate with."),
		own(ListenerProtocols, "string", "", "The security protocol of each listener."),
		own(Listeners, "list", port, "The addresses that the broker accepts connections on."),
		own(LogDir, "list", "", "The data directory, the same as log.dirs."),
		own(LogDirs, "list", "", "The data directory; there is one."),
		own(NodeID, "int", "", "The id of the broker."),
	}
}

// derivedRows returns the rows whose values are derived from other settings.
func derivedRows() []*Property {
	same := func(name string) func(func(string) string) string {
		return func(value func(string) string) string { return value(name) }
	}
	return []*Property{
		{
			Name: deleteTopicEnable, Type: "boolean", Default: "true", Field: "spec.adminAPI",
			Doc: "Topics can be deleted, unless adminAPI is ReadOnly.",
		},
		{
			Name: "group.consumer.max.size", Type: "int", Field: "spec.groups.maxMembers",
			Doc:    "The largest number of members of a consumer group, the same as " + groupMaxSize + ".",
			derive: same(groupMaxSize),
		},
		{
			Name: "log.cleaner.enable", Type: "boolean", Field: "spec.cleaner.workers",
			Doc: "The cleaner runs, unless " + logCleanerThreads + " is 0.",
			derive: func(value func(string) string) string {
				if value(logCleanerThreads) == "0" {
					return "false"
				}
				return "true"
			},
		},
		{
			Name: "offsets.topic.segment.bytes", Type: "int",
			Field:  "spec.topicDefaults.segment.size",
			Doc:    "The segment size of __consumer_offsets, unless its Topic sets another one.",
			derive: same(logSegmentBytes),
		},
	}
}

// fixedRows are the rows for settings whose values are fixed in the implementation. A test compares
// the values with the constants in the code.
var fixedRows = []*Property{
	{Name: "authorizer.class.name", Type: "string", Default: "",
		Doc: "There is no authorizer: each client may do everything."},
	{Name: "auto.leader.rebalance.enable", Type: "boolean", Default: "true",
		Doc: "The preferred replica is elected again when it is in sync."},
	{Name: "connections.max.idle.ms", Type: "long", Default: "600000",
		Doc: "A connection that sends nothing for this time is closed."},
	{Name: "controlled.shutdown.enable", Type: "boolean", Default: "true",
		Doc: "A broker that stops first hands over its partitions."},
	{Name: "fetch.max.bytes", Type: "int", Default: "57671680",
		Doc: "The largest response to a fetch request."},
	{Name: "group.consumer.assignors", Type: "list", Default: "uniform,range",
		Doc: "The assignors of the consumer protocol; the first one is the default."},
	{Name: "group.consumer.max.assignment.interval.ms", Type: "int", Default: "15000",
		Doc: "The upper bound for the config consumer.assignment.interval.ms of a group."},
	{Name: "group.consumer.migration.policy", Type: "string", Default: "disabled",
		Doc: "A group with members does not change its protocol."},
	{Name: "group.consumer.min.assignment.interval.ms", Type: "int", Default: "0",
		Doc: "The lower bound for the config consumer.assignment.interval.ms of a group."},
	{Name: "group.coordinator.append.linger.ms", Type: "int", Default: "0",
		Doc: "The coordinator appends the records of a request at once."},
	{Name: "group.coordinator.rebalance.protocols", Type: "list", Default: "classic,consumer",
		Doc: "The protocols of groups."},
	{Name: "log.cleaner.backoff.ms", Type: "long", Default: "250",
		Doc: "How often an idle cleaner looks for a log to clean."},
	{Name: "log.flush.offset.checkpoint.interval.ms", Type: "int", Default: "1000",
		Doc: "How often the recovery points are written."},
	{Name: "log.flush.scheduler.interval.ms", Type: "long", Default: "1000",
		Doc: "How often logs are synced to disk."},
	{Name: "log.flush.start.offset.checkpoint.interval.ms", Type: "int", Default: "1000",
		Doc: "How often the log start offsets are written."},
	{Name: "log.local.retention.bytes", Type: "long", Default: "-2",
		Doc: "The same as log.retention.bytes, as there is no tiered storage."},
	{Name: "log.local.retention.ms", Type: "long", Default: "-2",
		Doc: "The same as log.retention.ms, as there is no tiered storage."},
	{Name: "log.retention.check.interval.ms", Type: "long", Default: "60000",
		Doc: "How often expired segments are deleted."},
	{Name: "log.retention.hours", Type: "int", Default: "168",
		Doc: "The retention if log.retention.ms has no value."},
	{Name: "log.retention.minutes", Type: "int", Null: true,
		Doc: "Never set; see log.retention.ms."},
	{Name: "log.roll.hours", Type: "int", Default: "168",
		Doc: "The age at which a segment is rolled if log.roll.ms has no value."},
	{Name: "log.roll.jitter.hours", Type: "int", Default: "0",
		Doc: "The jitter if log.roll.jitter.ms has no value."},
	{Name: "max.incremental.fetch.session.cache.slots", Type: "int", Default: "1000",
		Doc: "The largest number of fetch sessions."},
	{Name: "max.request.partition.size.limit", Type: "int", Default: "2000",
		Doc: "The largest number of partitions in a response to DescribeTopicPartitions."},
	{Name: "num.replica.fetchers", Type: "int", Default: "1",
		Doc: "The number of fetchers for each leader, for topics of each durability."},
	{Name: "offsets.commit.timeout.ms", Type: "int", Default: "5000",
		Doc: "How long a commit of offsets waits for the in-sync replicas."},
	{Name: "offsets.topic.compression.codec", Type: "int", Default: "0",
		Doc: "The records of __consumer_offsets are not compressed."},
	{Name: "process.roles", Type: "list", Default: "broker",
		Doc: "The operator is the controller; there is no KRaft quorum."},
	{Name: "producer.id.expiration.ms", Type: "int", Default: "86400000",
		Doc: "How long the state of a producer is kept after its last batch."},
	{Name: "remote.log.storage.system.enable", Type: "boolean", Default: "false",
		Doc: "There is no tiered storage."},
	{Name: "replica.fetch.max.bytes", Type: "int", Default: "1048576",
		Doc: "The most that a follower fetches of one partition."},
	{Name: "replica.fetch.min.bytes", Type: "int", Default: "1",
		Doc: "The least that a follower waits for."},
	{Name: "replica.fetch.response.max.bytes", Type: "int", Default: "10485760",
		Doc: "The most that a follower fetches in one response."},
	{Name: "replica.fetch.wait.max.ms", Type: "int", Default: "500",
		Doc: "How long the fetch of a follower waits for records."},
	{Name: "replica.selector.class", Type: "string",
		Default: "org.apache.kafka.common.replica.RackAwareReplicaSelector",
		Doc:     "A consumer that names its rack is redirected to an in-sync replica there."},
	{Name: "security.inter.broker.protocol", Type: "string", Default: "PLAINTEXT",
		Doc: "The security protocol between brokers."},
	{Name: "socket.request.max.bytes", Type: "int", Default: "104857600",
		Doc: "The largest request."},
}

// transactionRows returns the rows for Kafka's transaction settings without a field. Their values
// are Kafka's defaults.
func transactionRows() []*Property {
	without := func(name, kind, value, doc string) *Property {
		return &Property{Name: name, Type: kind, Default: value,
			Doc: "Without effect. " + doc}
	}
	const interval, state = "int", "A setting of __transaction_state."
	return []*Property{
		without("transaction.abort.timed.out.transaction.cleanup.interval.ms", interval, "10000",
			"Transactions are aborted when they time out."),
		without("transaction.partition.verification.enable", "boolean", "true",
			"A partition is always verified to be part of a transaction."),
		without("transaction.remove.expired.transaction.cleanup.interval.ms", interval, "3600000",
			"How often expired transactional ids are removed."),
		without("transaction.state.log.load.buffer.size", "int", "5242880", state),
		without("transaction.state.log.min.isr", "int", "2", state),
		without("transaction.state.log.segment.bytes", "int", "104857600", state),
		without("transaction.two.phase.commit.enable", "boolean", "false",
			"Two-phase commit with an external coordinator."),
	}
}
