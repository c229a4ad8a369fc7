// Package group implements the groups of one partition of __consumer_offsets: members and
// generations of the classic protocol, and committed offsets. It is a deterministic state machine
// without goroutines, locks, clock, I/O or randomness. Ids and the time are arguments, and timers
// are requested through Timers. Each call returns an Output with the records to store and the
// answers to send. Packages coordinator and coordinator/runtime call it.
//
// State has two parts:
//
//   - Stored: offsets, and for each group its last complete generation with its members and their
//     assignments. Only Replay changes this part, from records that were just appended and from
//     records that are read after a failover. So a new coordinator has the stored state of the
//     previous coordinator. The record formats are Kafka's (records.go).
//   - Volatile: requests that wait to join or to sync, sessions, and member ids that were sent to
//     clients that have not joined with them yet. A failover loses this part, and clients retry.
//
// The phases of a group:
//
//	Empty -- join --> Preparing -- all joined, or timeout --> Completing -- leader syncs --> Stable
//	  ^                |    ^                                     |                            |
//	  +-- no members --+    +----------- join, leave, expired session -------------------------+
//
// Offsets that a producer commits in a transaction are pending until the transaction's marker is
// replayed (pending.go).
//
// Invariants:
//   - The committed offset of a partition comes from the partition's last record in the log that
//     took effect: a record without a transaction, or a record of a committed transaction. So a
//     coordinator that loads the compacted log has the same offsets.
//   - All members that receive a generation receive it with the same protocol and leader. A
//     member's assignment in a generation never changes.
//   - A member that was removed, or was replaced by a member with the same group.instance.id, can
//     no longer sync or commit.
//   - Each Token is answered at most once. When the runtime discards the State, the runtime answers
//     the remaining tokens.
//
// The rules are those of Kafka's GroupMetadataManager and ClassicGroup (KIP-62, 134, 211, 345, 394,
// 800, 814). The code is not copied from Kafka.
package group
