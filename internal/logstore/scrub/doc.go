// Package scrub re-reads everything that a broker keeps at rest, and finds damage before a client
// or a replica reads it: flipped bits, truncated files and read errors.
//
// A round checks all targets in order: the data directory, and for each partition the files that
// belong to no segment, and each sealed segment below the recovery point; also those of retained
// logs. Package inspect contains the checks, the same ones that `heartwood log verify` uses.
// Everything above the recovery point is checked by the recovery after a crash, and in the next
// round once it is sealed.
//
// State is pure: it decides, from what was checked when, the settings and the time, which target is
// next (docs/format/scrub.md). Scrubber is the shell: it owns one goroutine, Run.
//
// # Invariants
//
//   - A target is checked at most once in a round. Rounds begin at least an interval apart, also
//     across restarts, except that a round begins when the scrub is turned on. Each target that
//     exists from the begin of a round to its end is checked in this round. Segments that were
//     found damaged are checked first in each process.
//   - Damage of a segment is reported only if the segment is the same one before and after the
//     check, and if a second check finds damage, too. Otherwise a swap, retention or a truncation
//     that runs meanwhile would look like damage.
//   - The scrub changes no file but its own, and derived files that it has found damaged in a
//     segment without damaged records (package repair). These count as repaired only after another
//     check.
//
// # Locks
//
// Scrubber.mu guards the state that metrics and Configure share with Run. It is held for moments
// only, and no other lock is acquired under it.
package scrub
