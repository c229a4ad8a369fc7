// Package lag computes the lag of consumer groups: how many offsets their committed offsets are
// behind the end offsets of the partitions. Summarize adds the lags of a topic's partitions,
// selects the largest sums for export, and counts the sums that the export omits.
//
// The lag is the end offset minus the committed offset, as in Kafka's tool kafka-consumer-groups.
// The end offset is the high watermark, even for groups that read only committed records. The
// caller must read the committed offsets before the end offsets. So no group has a negative lag,
// but the lag of a group that is caught up may include records that were written in between. Like
// Kafka's tool, the package counts offsets: a topic that is compacted or has transactions contains
// fewer records than offsets.
//
// Partitions without a committed offset have no lag, as in Kafka's tool, which shows a dash.
//
// The package is pure. A broker runs it for the groups that it coordinates (internal/broker).
package lag
