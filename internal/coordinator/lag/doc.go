// Package lag computes the lag of consumer groups: how many offsets their committed offsets are
// behind the end offsets of the partitions. Summarize adds the lags of the partitions of a topic,
// selects the largest sums for export, and counts what the export leaves out.
//
// The definition is that of Kafka's kafka-consumer-groups: end offset minus committed offset. The
// end offset is the high watermark, also for groups that read committed records only. The caller
// must read the committed offsets before the end offsets. A group that keeps up may then show the
// records that were written in between, and no group shows a negative lag. Like Kafka's tool, the
// package counts offsets: in a compacted topic or in one with transactions, there are fewer records
// than offsets.
//
// Partitions without a committed offset have no lag, as in Kafka's tool, which shows a dash.
//
// The package is pure. A broker runs it for the groups that it coordinates (internal/broker).
package lag
