// Package isr tracks the replicas of a partition, as its leader knows them, during one leader
// epoch. It decides which replicas are in sync and how far the high watermark may advance.
//
// The package is pure: no locks, clock, goroutines or I/O. The caller serializes the calls and
// passes the current time to them. docs/internals/replication.md explains why the rules are safe.
//
//   - State (isr.go) is the state of one leader epoch: the recorded ISR, the ISR in metadata and
//     the maximal ISR.
//   - follower.go tracks each follower: how far its log reaches, and when it was last caught up.
//   - update.go proposes ISR changes and processes their outcomes (KIP-497).
//
// Invariant: every set that may be the recorded ISR, now or after pending updates arrive, is a
// subset of the maximal ISR. So if the high watermark does not exceed the smallest durable end
// offset over the maximal ISR, every replica that can be elected has all records below it.
package isr
