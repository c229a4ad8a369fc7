// Package producer represents the producer state of one log (KIP-98): for each producer id the
// epoch, the last batches, and the open transaction. With this state appends are idempotent, and
// batches of producers and coordinators with older epochs are rejected.
//
// The package is pure: it acquires no lock, reads no clock, starts no goroutine and does no I/O.
// The caller serializes access (Log.mu in internal/logstore), passes the current time as an
// argument, and stores the snapshots that Encode returns.
//
// # Invariants
//
//   - The state depends only on the batches of the log, so replaying the batches rebuilds it. For
//     this reason Check decides about a batch without changing the state, and Update rejects no
//     batch: it applies every batch that is in the log.
//   - A transaction is open if and only if no marker of its producer follows its batches, and at
//     least one of its records is at or above the log start. Open transactions are sorted by their
//     first offsets.
//   - A producer with an open transaction never expires. Without its state no marker could end the
//     transaction, and the records of the transaction would be treated as committed.
package producer
