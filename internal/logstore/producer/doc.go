// Package producer holds the producer state of one log (KIP-98): for each producer id the epoch,
// the last batches, and the open transaction. It makes an append idempotent, fences producers and
// coordinators of older epochs, and knows which transactions are open.
//
// The package is pure: it takes no lock, reads no clock, starts no goroutine and does no I/O. The
// caller serializes access (Log.mu in internal/logstore), passes the time in, and stores the
// snapshots that Encode returns.
//
// # Invariants
//
//   - The state follows from the batches of the log up to its end, and from nothing else: replaying
//     them rebuilds it. So Check decides about a batch without a change of the state, and Update
//     applies a batch that is in the log and never rejects it.
//   - A transaction is open exactly if a transactional batch of its producer has no marker behind
//     it. Open transactions are kept in the order of their first offsets.
//   - A producer with an open transaction never expires: without its state the transaction could
//     not be decided, and its records would be treated as committed.
package producer
