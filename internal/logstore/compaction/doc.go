// Package compaction is the view of one log that the cleaner uses (Compaction): the sections of the
// log, passes, estimates of the garbage, and reports of segments. Package cleaner decides when to
// call it, package clean contains the pass itself, and package progress contains the log's cleaning
// progress.
//
// # Invariants
//
//   - A log has the same Compaction for its whole life: a pointer to it identifies the log.
//   - Every segment of a View ends at or below the View's bound. The bound is at most the offset
//     below which segments are sealed and checkpointed.
//
// # Locks
//
// A Compaction acquires the locks of its log only through Env: Record runs under Log.mu, Keep under
// Log.maintain. Sections, reports and estimates acquire no lock of the log. The package starts no
// goroutine.
package compaction
