// Package group is what a coordinator knows of its groups, and does: members and generations of the
// classic protocol, and committed offsets. It is a plain struct: no goroutine, no lock, no clock,
// no I/O, no chance; ids and the time come in, timers are asked for through Timers, and what is to
// be stored and answered comes out as an Output. Its shell is internal/coordinator.
//
// State of one partition of __consumer_offsets has two halves:
//
//   - What is stored: offsets, and of each group the generation that was last agreed on, with its
//     members and what each was assigned. Only Replay changes it, whether the record was written a
//     moment ago or is read after a failover; so a coordinator that comes knows what the one before
//     it knew. The formats are Kafka's (records.go).
//   - What is not: who waits to join or to sync, sessions, ids given out and not used yet. A
//     failover loses it, and clients begin again.
//
// A group's life, by whom it is changed:
//
//	Empty ──join──► Preparing ──all have joined, or time is up──► Completing ──the leader's sync, by replay──► Stable
//	  ▲                 │  ▲                                          │                                           │
//	  └─none is left,───┘  └──────── join, leave, session over ───────┴───────────────────────────────────────────┘
//	    by replay
//
// Invariants:
//   - All members that are told of a generation are told the same one, with the same protocol and
//     leader, and what each is assigned in it never changes.
//   - A member that was replaced (same group.instance.id) or removed is refused from that moment
//     on: it neither syncs nor commits.
//   - Each Token is answered once, at most: those that are not when the State is thrown away are
//     the shell's to answer.
//
// The rules are those of Kafka's GroupMetadataManager and ClassicGroup (KIP-62, 134, 345, 394, 800,
// 814, 211), not its code.
package group
