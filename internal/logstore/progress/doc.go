// Package progress holds how far a log is cleaned (Progress): the first dirty offset, the
// tombstone-clean offset, the time from which the next pass is due, and how far the other replicas
// are cleaned.
//
// # Invariants
//
//   - The stored first dirty offset may be outside the log, as after retention. Readers use
//     FirstDirtyIn, and ResetFirstDirty corrects it before a pass (cleaner invariant I3).
//   - The result of a pass is stored only if the log was not truncated since the pass took its
//     view.
//
// # Locks
//
// SetCleaned stores its result under Log.mu, by Env.Record. The mutex of the replicas' progress is
// acquired after the locks of the log, and no other lock while it is held.
package progress
