package brokerconfig

import "strings"

// Omission is a group of Kafka's broker settings that brokers do not list.
type Omission struct {
	Names  []string // names, or prefixes that end with a dot
	Reason string
}

// Omissions returns the Kafka settings that brokers do not list, with the reasons. A setting
// belongs to the first group that contains its name or a prefix of its name.
func Omissions() []Omission { return omissions }

// Matches reports whether the omission contains a setting.
func (o Omission) Matches(name string) bool {
	for _, n := range o.Names {
		if n == name || strings.HasSuffix(n, ".") && strings.HasPrefix(name, n) {
			return true
		}
	}
	return false
}

var omissions = []Omission{
	{[]string{"sasl.", "connections.max.reauth.ms", "connection.failed.authentication.delay.ms",
		"principal.builder.class", "delegation.token."}, "Passwords and tokens are configured by spec.listeners[].authentication and LogUsers."},
	{[]string{"ssl.", "security.providers"}, "TLS is configured by spec.listeners[].tls; the operator renews the certificates."},
	{[]string{"quota.", "controller.quota.", "replication.quota.",
		"alter.log.dirs.replication.quota.", "client.quota.callback.class"},
		"Quotas belong to users: LogUser, spec.quotas. They are measured over 10 s."},
	{[]string{"controller.", "metadata.", "early.start.listeners", "broker.heartbeat.interval.ms",
		"broker.session.timeout.ms", "initial.broker.registration.timeout.ms"},
		"There is no KRaft quorum: Kubernetes stores the metadata, and brokers renew Leases."},
	{[]string{"remote.", "follower.fetch.last.tiered.offset.enable"},
		"There is no tiered storage."},
	{[]string{"group.share.", "share."}, "Share groups are not supported."},
	{[]string{"group.streams."}, "Streams groups have no settings here."},
	{[]string{"add.partitions.to.txn.retry.backoff.max.ms",
		"add.partitions.to.txn.retry.backoff.ms"}, "Brokers choose the pauses between two attempts themselves."},
	{[]string{"background.threads", "num.io.threads", "num.network.threads",
		"num.recovery.threads.per.data.dir", "num.replica.alter.log.dirs.threads",
		"group.coordinator.background.threads", "group.coordinator.threads",
		"queued.max.request.bytes", "queued.max.requests"},
		"There are no thread pools and no queues of requests: each connection has a goroutine."},
	{[]string{"group.coordinator.cached.buffer.max.bytes", "offsets.load.buffer.size",
		"log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size",
		"socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.listen.backlog.size",
		"replica.socket.receive.buffer.bytes"},
		"There is no such buffer, or the operating system chooses its size."},
	{[]string{"delete.records.purgatory.purge.interval.requests",
		"fetch.purgatory.purge.interval.requests", "producer.purgatory.purge.interval.requests"},
		"A delayed request is removed when it completes."},
	{[]string{"max.connection.creation.rate", "max.connections", "max.connections.per.ip",
		"max.connections.per.ip.overrides"}, "Brokers do not limit connections."},
	{[]string{"alter.config.policy.class.name", "create.topic.policy.class.name",
		"config.providers", "metric.reporters", "kafka.metrics.", "metrics.",
		"telemetry.max.bytes"}, "There are no plug-ins; metrics are served over HTTP."},
	{[]string{"cordoned.log.dirs", "log.dir.failure.timeout.ms"},
		"A broker has one data directory."},
	{[]string{"leader.imbalance.check.interval.seconds", "replica.fetch.backoff.ms",
		"replica.high.watermark.checkpoint.interval.ms", "replica.socket.timeout.ms",
		"request.timeout.ms", "socket.connection.setup.timeout.max.ms",
		"socket.connection.setup.timeout.ms"},
		"The interval or time-out varies, or there is none."},
}
