// Package clean is the cleaner's core: segments in, segments and Stats out. For each key it keeps
// the latest record below a bound, drops those it supersedes, and drops a tombstone once nobody can
// need it any more. docs/cleaner.md tells it at length; the rules' names (I1, X2, F1...) stand
// there.
//
// A pass goes in these steps, window by window if the log has more records than there is memory for
// a bit of each:
//
//  1. index: the key sidecars of all segments are opened; those that are missing are made.
//  2. transactions: the batches are gone through, as the sidecars have them, to find which are
//     aborted, and which markers are alone.
//  3. resolve: slice by slice of the hashes, the entries of all segments are read, the newest
//     segment first, into a table that holds each key's latest record. The result is bitmaps by
//     record: dead, and lonely (the last physical record of its key).
//  4. measure: each segment's account: what a rewrite would read, write and free; which tombstones
//     are due.
//  5. choose: which segments are worth a rewrite, or were promised one.
//  6. rewrite: groups of neighbours become new segments, which replace the old ones as one commit
//     point each. Batches that are dead are skipped unread, those that live whole are copied after
//     a check, only mixed ones are decoded, and held against the sidecar.
//  7. settle: what stays is written down in .dead files: exact garbage, and the clocks of lonely
//     tombstones.
//
// Invariants:
//   - A pass that fails before its first rewrite has changed nothing; what it replaced later stays
//     replaced.
//   - A record goes only if one of its key that stays is above it in the log, or it has no key, or
//     its transaction was aborted, or it is below the log start, or it is a tombstone or marker
//     that is due. Nothing goes because a file says so that an earlier pass has written.
//   - A tombstone goes only if it was the last physical record of its key when the pass began, and
//     had been so for the retention.
//   - An offset never moves; LastOffset of a batch never changes; the batch that ends at the bound
//     stays, empty if need be.
//   - Memory stays within Limits.MemoryBytes, whatever the number of keys, but for the buffers of
//     one batch (about three times what it decompresses to), a few dozen bytes for each segment and
//     each aborted transaction, and the bitmaps of one segment if they alone are more than that.
//
// The package starts no goroutine, takes no lock and reads no clock. Slices are worked on by
// several goroutines if Limits.Parallel has them; they share the bitmaps, whose bits they set
// atomically, and counters.
package clean
