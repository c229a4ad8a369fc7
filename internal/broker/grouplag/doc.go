// Package grouplag computes the lag of the consumer groups that a broker coordinates, and exports
// the lag as metrics. In each round it reads the committed offsets from the loaded shards of the
// coordinator. Then it requests the end offsets from all partition leaders at once. While no group
// has committed an offset, it sends no requests. The pure package internal/coordinator/lag computes
// the sums.
//
// If a leader does not answer, its partitions keep their last known end offsets. Nothing is written
// to a partition while its leader is unavailable, so the lag stays correct, and its metric series
// do not disappear. The metrics show that such a round was incomplete.
//
// Run is the only goroutine, apart from one goroutine for each leader during a round. Last and the
// metrics may be used concurrently with Run.
package grouplag
