// Package progress contains the cleaning progress of a log (Progress): the first dirty offset, the
// tombstone-clean offset, the time from which the next pass is due, and the cleaning progress of
// the other replicas.
//
// # Invariants
//
//   - The stored first dirty offset may be outside the log, for example after retention. Readers
//     use FirstDirtyIn, and ResetFirstDirty corrects the offset before a pass (cleaner invariant
//     I3).
//   - The result of a pass is stored only if the log was not truncated since the pass took its
//     view.
//
// # Locks
//
// SetCleaned stores its result under Log.mu, through Env.Record. The mutex of the replicas'
// progress is acquired after the locks of the log. No other lock is acquired while this mutex is
// held.
package progress
