// Package repair replaces derived files of a segment at rest by files that are computed from its
// data file (ADR 0387).
//
// # Invariants
//
//   - The computation holds no lock. The rename of the new file, or the removal of the old one, is
//     the commit point. It is executed while no retention, truncation or swap runs, and only if the
//     log still has the segment.
//   - A data file is never changed.
//   - A crash leaves the old file or the new one.
//
// # Locks
//
// Segment.Truncating is acquired before Segment.Maintain, as everywhere in a log, and both before
// Segment.Mu, which is held to publish the segment list only.
package repair
