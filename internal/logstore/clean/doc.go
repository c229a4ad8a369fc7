// Package clean is the cleaner's core: segments in, segments and Stats out. For each key it keeps the latest record below a
// bound, drops those it supersedes, and drops a tombstone once nobody can need it any more. docs/cleaner.md tells it at length;
// the rules' names (I1, X2, F1...) stand there.
//
// A pass goes in four steps:
//
//  1. resolve: every batch below the bound is read once and checked. The keys of the dirty section go into one table in memory
//     (key hash -> place of its latest record); what a later record supersedes is marked dead at its place. Then the records of
//     the clean section are looked up there. The result is a plan for each segment: bitmaps by record.
//  2. decide: the plan says for each batch what becomes of it: kept as it is, dropped, or rebuilt.
//  3. group: neighbours that hold garbage are rewritten together, as far as what lives fits one segment. A segment without
//     garbage is not touched, unless it is small and has such neighbours.
//  4. rewrite: each group becomes new segments, which replace the old ones as one commit point, in ascending order.
//
// Invariants:
//   - Nothing is changed before all of the range was read and found sound; a pass that fails earlier has changed nothing.
//   - Groups are committed in ascending order, so at every moment a tombstone is in place as long as a value it deletes is.
//   - An offset never moves; LastOffset of a batch never changes; the batch that ends at the bound stays, empty if need be.
//   - A tombstone gets its horizon in the pass after which it is the last physical record of its key, and goes in a later one.
//   - Memory stays within Job.MemoryBytes (a pass that would need more ends with ErrOverBudget), except for the buffers of one
//     batch: about three times what it decompresses to. A batch that decompresses to more than Job.BatchBytesMax is kept as it
//     is, unread, and as nobody knows its keys, no tombstone goes while it is there.
//
// Step 1 is the part that will change: sorted key sidecars and hash slices give the same plan with a fixed budget, whatever the
// number of keys. The other steps know of the plan only.
//
// The package starts no goroutine, takes no lock and reads no clock.
package clean
