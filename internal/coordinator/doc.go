// Package coordinator holds the coordinators of this broker. Groups is the group coordinator: it
// serves the consumer groups whose partition of the internal topic __consumer_offsets this broker
// leads.
//
// The state machine of a partition's groups is internal/coordinator/group, which is pure.
// internal/coordinator/runtime drives it: it loads partitions, appends records and waits for the
// high watermark. This package connects the two (groupShard), translates requests into calls of the
// state machine, and exports the metrics.
//
// Locks: Groups.mu, a leaf, guards the set of loaded shards for the metrics.
package coordinator
