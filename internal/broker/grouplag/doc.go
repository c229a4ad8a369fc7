// Package grouplag computes the lag of the consumer groups that a broker coordinates, and exports
// the lag as metrics. In each round it reads the committed offsets from the loaded shards of the
// coordinator, and requests the end offsets from all partition leaders concurrently. While no group
// has committed an offset, it sends no requests. The pure package internal/coordinator/lag computes
// the sums.
//
// If a leader does not respond, its partitions keep their last known end offsets. So their metric
// series do not disappear, and the lag remains correct, because nothing is written to a partition
// while its leader is unavailable. The metrics show that the round was incomplete.
//
// Run is the only goroutine, apart from one goroutine for each leader during a round. Last and the
// metrics may be used concurrently with Run.
package grouplag
