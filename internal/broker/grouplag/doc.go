// Package grouplag computes the lag of the consumer groups that a broker coordinates, and exports
// it as metrics. In each round it reads the committed offsets of the loaded shards, and then asks
// the leader of each partition for its end offset, all leaders at once. While no group has
// committed an offset, it asks nobody. Package internal/coordinator/lag, which is pure, computes
// the sums.
//
// If a leader does not answer, the last known end offsets of its partitions count: while the leader
// is unavailable nothing is written there, so the lag is right, and it does not seem to vanish. The
// round then counts as incomplete, which the metrics show.
//
// Run is the only goroutine besides those that ask leaders during a round. Last and the metrics may
// be used concurrently with it.
package grouplag
