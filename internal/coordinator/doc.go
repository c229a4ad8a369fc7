// Package coordinator runs the coordinators of consumer groups: for each partition of the internal
// topic __consumer_offsets that this broker leads a shard, which holds the groups that hash to it.
// What a group is and does is internal/coordinator/group, which is pure; this is its shell.
//
// A shard reads its partition when this broker becomes its leader, and is given up when it ceases
// to be, or leads in another epoch. In between its one goroutine takes requests and timers one by
// one:
//
//	request ──► group.State: what to store, what to answer
//	              │ records: appended to the log, in the very leader epoch that was read in (replica.Set.AppendIn)
//	              ▼
//	            group.State.Replay, as after a failover
//	              │ answers, each with the offset of the last record that the state was made of
//	              ▼
//	request waits until that offset is below the high watermark (replica.Set.Await), then answers
//
// Invariants:
//   - State changes durably by replay only, so what a later coordinator reads is what this one
//     answered from.
//   - No answer, of a read neither, tells of what is not below the high watermark: a failover takes
//     nothing back. Heartbeats alone do not wait, as they tell of nothing stored.
//   - A shard's last append is over before the next shard of its partition begins to read.
//   - When records could not be appended that a change of what is not stored had counted on, the
//     shard reads everything again; those who wait are told ErrLoading, and come again.
//
// Locks: Runtime.mu while shards are started and stopped; shard.queue.mu, a leaf. Nothing is waited
// for under either.
//
// Goroutines: one for each shard, which ends when it is given up, and the timer's. Close joins all.
package coordinator
