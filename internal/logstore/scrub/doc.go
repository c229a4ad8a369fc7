// Package scrub re-reads everything that a broker keeps at rest, and finds damage before a client
// or a replica reads it: flipped bits, truncated files and read errors.
//
// A round checks all targets in order: the data directory, and, for each partition and each
// retained log, the files that belong to no segment and each sealed segment below the recovery
// point. Package inspect contains the checks, which `heartwood log verify` uses too. Everything
// above the recovery point is checked by recovery after a crash, and by the next round after it is
// sealed.
//
// State is pure: it decides which target is next, based on the earlier checks and their times, the
// settings and the current time (docs/internals/format/scrub.md). Scrubber does the I/O and owns
// one goroutine, Run.
//
// # Invariants
//
//   - A target is checked at most once in a round. Rounds begin at least an interval apart, even
//     across restarts, except that a round begins when the scrub is turned on. Each target that
//     exists during a whole round is checked in this round. After a restart, segments with known
//     damage are checked first.
//   - Damage of a segment is reported only if the log has the same segment before and after the
//     check, and if a second check finds damage, too. Otherwise a concurrent swap, retention or
//     truncation would look like damage.
//   - The scrub changes only its own file and damaged files. It replaces derived files of segments
//     (package repair) only in segments without damaged records. Any other file is rewritten by its
//     owner, the component that has the content in memory; the scrub does not encode files that it
//     does not own. The files of retained logs have no owner. A file counts as repaired only after
//     another check.
//   - Once damaged records were found in a segment, readers verify each batch of this segment.
//     After a restart, the segments in State.Damaged are marked as damaged before the first check.
//
// # Locks
//
// Scrubber.mu guards the state that metrics and Configure share with Run. It is held only briefly,
// and no other lock is acquired while it is held.
package scrub
