// Package repair replaces damaged files of a segment at rest. Derived files are computed from the
// data file (Segment, ADR 0387). Damaged batches of the data file are replaced by those of another
// in-sync replica (Records, ADR 0389).
//
// # Invariants
//
//   - The computation holds no lock. The rename of the new file, or the removal of the old one, is
//     the commit point. The commit point is reached only while no retention, truncation or swap
//     runs, and only if the log still has the segment. A new data file is swapped in like the
//     output of a pass (docs/internals/format/swap.md).
//   - A repair that writes files before its commit point ends before its log has closed
//     (parallel.Tasks).
//   - A crash leaves either the old or the new file.
//   - The new data file contains no record that this replica has removed, and lacks no record of
//     the old one that the other replica has.
//
// # Locks
//
// Segment.Truncating is acquired before Segment.Maintain, as everywhere in a log. Both are acquired
// before Segment.Mu, which is only held to publish the segment list.
package repair
