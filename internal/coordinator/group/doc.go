// Package group implements the groups of one partition of __consumer_offsets: members and
// generations of the classic protocol, and committed offsets. It is a deterministic state machine
// without goroutines, locks, clock, I/O or randomness: ids and the time are arguments, timers are
// requested through Timers, and each call returns an Output with the records to store and the
// answers to send. internal/coordinator and its runtime drive it.
//
// State has two parts:
//
//   - Stored: offsets, and for each group its last complete generation with its members and their
//     assignments. Only Replay changes this part, both for records that were just appended and for
//     records that are read after a failover. So a new coordinator has the state of the previous
//     one. The record formats are Kafka's (records.go).
//   - Volatile: requests that wait to join or to sync, sessions, member ids that were given out and
//     have not joined. A failover loses this part, and clients retry.
//
// The phases of a group:
//
//	Empty -- join --> Preparing -- all joined, or timeout --> Completing -- leader syncs --> Stable
//	  ^                |    ^                                     |                            |
//	  +-- no members --+    +----------- join, leave, expired session -------------------------+
//
// Invariants:
//   - All members that get a generation get the same one, with the same protocol and leader, and a
//     member's assignment in a generation never changes.
//   - A member that was replaced (same group.instance.id) or removed is rejected from then on: it
//     can neither sync nor commit.
//   - Each Token is answered at most once. When the runtime discards the State, it answers the
//     tokens that are still open.
//
// The rules are those of Kafka's GroupMetadataManager and ClassicGroup (KIP-62, 134, 345, 394, 800,
// 814, 211); the code is not.
package group
