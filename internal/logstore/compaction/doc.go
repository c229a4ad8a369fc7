// Package compaction is the view of one log that the cleaner uses (Compaction): the sections of the
// log, passes, estimates of the garbage, reports of segments, and the progress of cleaning. Package
// cleaner decides when to call it, and package clean contains the pass itself.
//
// # Invariants
//
//   - A log has the same Compaction for its whole life: a pointer to it identifies the log.
//   - Every segment of a View ends at or below its bound, which is at most the offset below which
//     segments are sealed and checkpointed.
//   - The result of a pass is stored only if the log was not truncated since the pass took its
//     view.
//
// # Locks
//
// A Compaction acquires the locks of its log only through Env: Record runs under Log.mu, Keep under
// Log.maintain. progress.mu is acquired after them, and no other lock while it is held. Sections,
// reports and estimates acquire no lock of the log. The package starts no goroutine.
package compaction
