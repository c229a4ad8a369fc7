// Package repair replaces derived files of a segment at rest by files that are computed from its
// data file (ADR 0387).
//
// # Invariants
//
//   - The computation holds no lock. The rename of the new file, or the removal of the old one, is
//     the commit point. The commit point is executed while no retention, truncation or swap runs,
//     and only if the log still has the segment.
//   - A data file is never changed.
//   - A crash leaves either the old or the new file.
//
// # Locks
//
// Segment.Truncating is acquired before Segment.Maintain, as everywhere in a log. Both are acquired
// before Segment.Mu, which is only held to publish the segment list.
package repair
