// Package coordinator implements this broker's group coordinator (Groups). It serves the consumer
// groups that are stored in the partitions of __consumer_offsets that this broker leads.
//
// Package group, which is pure, is the state machine for the groups of one partition. Package
// runtime runs the state machine: it loads partitions, appends records and waits for the high
// watermark. Package coordinator connects the two packages (groupShard), translates requests into
// calls of the state machine, and exports the metrics.
//
// Lock: Groups.mu guards the set of shards that the metrics visit. No other lock is acquired while
// it is held.
package coordinator
