// Package runtime runs coordinators: state machines whose state is stored in the partitions of one
// internal topic. It runs a shard for each partition of the topic that this broker leads. A shard
// contains one state machine (Machine) for the keys that hash to its partition. Its users are the
// group coordinators on __consumer_offsets and the transaction coordinators on __transaction_state.
// Kafka's CoordinatorRuntime and CoordinatorShard are split in the same way.
//
// A shard loads its partition when this broker becomes the leader, and stops when the leader epoch
// changes. In between, the one goroutine of the shard handles requests and timers one at a time:
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
//   - Only Replay changes stored state. Therefore the next coordinator of the partition loads
//     exactly the state that this one has answered from.
//   - No answer reveals state above the high watermark, not even the answer to a read, so a
//     failover never retracts an answer. CallVolatile does not wait for the high watermark, because
//     its answers reveal no stored state.
//   - The next shard of a partition starts to load only after the previous shard's last append has
//     returned.
//   - If a change of volatile state depended on records that cannot be appended
//     (Output.VolatileChanged), the shard loads its partition again. Waiting requests return
//     ErrLoading, and clients retry them.
//
// Locks: Runtime.mu is held while shards are started and stopped. Shard.queue.Mutex may be acquired
// under it, and no other lock under Shard.queue.Mutex. No code blocks while it holds one of the
// two.
//
// Goroutines: one for each shard, which exits when the shard stops; one for the effects of each
// loaded shard (effects.go), which the shard's goroutine starts and joins; and the goroutine of the
// timer. Close waits until all of them have exited.
package runtime
