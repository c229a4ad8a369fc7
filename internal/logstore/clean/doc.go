// Package clean is the core of the cleaner: Run compacts one log, from sealed segments to new
// segments and Stats. For each key it retains the latest record below a bound and removes the
// records that this one supersedes. It removes a tombstone once no consumer and no replica can
// still need it. docs/cleaner.md describes the whole design and defines the names of the rules (I1,
// X2, F1 and so on).
//
// # Steps of a pass
//
// A pass works in windows of neighbouring segments if the bitmaps of the whole log exceed the
// memory budget. Per window:
//
//  1. index (once, for all segments): open the key sidecar of every segment; build missing ones.
//  2. transactions: read the batch entries of all sidecars to find the aborted transactions and the
//     markers whose transaction has no batch left.
//  3. deduplicate: for each hash slice, read the entries of all segments, newest segment first,
//     into a table that holds the latest record of each key. The result is one bit per record: dead
//     (superseded), or the last record of its key.
//  4. measure: compute for each segment what a rewrite would read, write and free, and which
//     tombstones are due.
//  5. choose: select the segments that are worth a rewrite or that must be rewritten.
//  6. rewrite: merge each rewrite group into new segments, which replace the old ones at one commit
//     point. Dead batches are skipped without a read. Batches that lose nothing are copied after a
//     checksum. Only mixed batches are decoded, and they are compared with the sidecar.
//  7. settle: write the .dead file of each segment, which contains the exact garbage of the segment
//     and the time at which each of its removable tombstones became removable.
//
// # Components
//
// pass runs the steps in order and owns the plans, one per segment. Each step is a component that
// receives what it reads and writes: sliceResolver (step 3), measurer (4), groupRewrite with
// batchReader, batchRebuilder and segmentWriter (6), and settler (7). ioMeter accounts for I/O and
// throttles it, memory accounts for buffers, followUp computes the time of the next pass that the
// log needs.
//
// # Invariants
//
//   - A pass that fails before its first rewrite has changed nothing. A later failure does not undo
//     the groups that were already replaced.
//   - A record is removed only if a newer record of its key remains in the log, or it has no key,
//     or its transaction was aborted, or it is below the log start offset, or it is a tombstone or
//     marker that is due. No record is removed on the word of a file that an earlier pass wrote.
//   - A tombstone is removed only if it was the last physical record of its key when the pass
//     began, and had been the last one for the whole tombstone retention.
//   - Offsets do not change, and neither does the LastOffset of a batch. The batch that ends at the
//     bound remains, without records if necessary.
//   - Memory stays within Limits.MemoryBytes for any number of keys, except for the buffers of one
//     batch (about twice its decompressed size), a few dozen bytes per segment and per aborted
//     transaction, and the bitmaps of a single segment if they alone exceed the budget.
//
// # Concurrency
//
// The package starts no goroutine, takes no lock and reads no clock. Limits.Parallel may run
// several hash slices at once: they set bits of the shared bitmaps atomically and share counters.
package clean
