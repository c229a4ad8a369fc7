// Package runtime runs coordinators: state machines whose state is stored in the partitions of one
// internal topic. It runs a shard for each partition of the topic that this broker leads. A shard
// contains one state machine (Machine) for the keys that hash to its partition. The group
// coordinators use the package for __consumer_offsets, and the transaction coordinators for
// __transaction_state. Kafka has the same division, into CoordinatorRuntime and CoordinatorShard.
//
// A shard loads its partition when this broker becomes the leader, and stops when the leader epoch
// changes. In between, the shard's only goroutine handles requests and timers, one at a time:
//
//	request ──► Machine: records to store, answers
//	              │ records: appended in the leader epoch that was loaded (replica.Set.AppendIn)
//	              ▼
//	            Machine.Replay: changes the state
//	              │ answers, each with the offset of the last record that the state contains
//	              ▼
//	request waits until that offset is below the high watermark (replica.Set.Await), then answers
//
// Invariants:
//   - Only Replay changes stored state. Therefore the partition's next coordinator loads exactly
//     the state on which this coordinator's answers were based.
//   - No answer reveals state above the high watermark, not even the answer to a read, so a
//     failover never retracts an answer. CallVolatile does not wait for the high watermark, because
//     its answers reveal no stored state.
//   - The next shard of a partition starts to load only after the previous shard's last append has
//     returned.
//   - If volatile state was changed on the assumption that records will be stored
//     (Output.VolatileChanged), and they cannot be appended, the shard loads its partition again.
//     Waiting requests return ErrLoading, and clients retry them.
//
// Locks: Runtime.mu is held while shards are started and stopped. Shard.queue.Mutex may be acquired
// under Runtime.mu, and no other lock may be acquired under Shard.queue.Mutex. No code blocks while
// it holds one of the two.
//
// Goroutines: each shard has one, which exits when the shard stops. Each loaded shard has another
// one for its effects (effects.go), which the shard's goroutine starts and joins. The timer has
// one. Close waits until all of them have exited.
package runtime
