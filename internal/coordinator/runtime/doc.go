// Package runtime runs coordinators: state machines whose state is stored in the partitions of one
// internal topic. It holds a shard for each partition of the topic that this broker leads, and a
// shard holds one state machine (Machine) with the keys that hash to its partition. Group
// coordinators over __consumer_offsets are its first user; transaction coordinators over
// __transaction_state will be the second. Kafka has the same split (CoordinatorRuntime,
// CoordinatorShard).
//
// A shard loads its partition when this broker becomes the leader, and stops when the broker loses
// leadership or the leader epoch changes. In between, its one goroutine takes requests and timers
// one at a time:
//
//	request ──► Machine: records to store, answers
//	              │ records: appended in the leader epoch that was loaded (replica.Set.AppendIn)
//	              ▼
//	            Machine.Replay, as after a failover
//	              │ answers, each with the offset of the last record that the state contains
//	              ▼
//	request waits until that offset is below the high watermark (replica.Set.Await), then answers
//
// Invariants:
//   - Stored state changes by replay only, so a later coordinator reads exactly the state that this
//     one answered from.
//   - No answer, reads included, reveals state above the high watermark, so a failover never
//     retracts one. Only CallVolatile does not wait: its answers reveal nothing stored.
//   - A shard's last append has returned before the next shard of its partition starts to load.
//   - If records cannot be appended on which a change of volatile state depended
//     (Output.VolatileChanged), the shard loads its partition again; waiting requests get
//     ErrLoading and are retried by their clients.
//
// Locks: Runtime.mu, held while shards are started and stopped; Shard.queue.Mutex, a leaf. Nothing
// blocks under either.
//
// Goroutines: one for each shard, which exits when the shard stops, and the timer's. Close joins
// all of them.
package runtime
