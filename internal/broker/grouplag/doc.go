// Package grouplag computes the lag of the consumer groups that a broker coordinates, and exports
// it as metrics. In each round it reads the committed offsets of the loaded shards, and then asks
// the leaders of the partitions for their end offsets, all leaders at once. While no group has
// committed an offset, it sends no requests. Package internal/coordinator/lag, which is pure,
// computes the sums.
//
// If a leader does not answer, its partitions keep their last known end offsets. Nothing is written
// to a partition while its leader is unavailable, so the lag stays correct, and its series do not
// disappear. The metrics show that such a round was incomplete.
//
// Run is the only goroutine besides those that ask leaders during a round. Last and the metrics may
// be used concurrently with it.
package grouplag
