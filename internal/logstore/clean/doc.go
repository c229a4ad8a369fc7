// Package clean is the core of the cleaner: Run compacts one log, from sealed segments to new
// segments and Stats. For each key it keeps the latest record below the cleanable bound and removes
// the older ones. It removes a tombstone once no consumer and no replica can still need it.
// docs/internals/cleaner.md describes the whole design. Names such as I1, X2 and F1 refer to the
// invariants in docs/internals/cleaner-invariants.md.
//
// # Steps of a pass
//
// If the bitmaps of the whole log exceed the memory budget, a pass divides the log into windows of
// neighbouring segments and cleans one window after the other. The steps for a window are:
//
//  1. index (once per pass, for all segments): open the key sidecar of every segment, and build the
//     sidecars that are missing.
//  2. transactions: read the batch entries of all sidecars to find the aborted transactions and the
//     markers whose transaction has no batch left.
//  3. deduplicate: for each hash slice, read the entries of all segments, newest segment first,
//     into a table that holds the latest record of each key. The result is three bitmaps per
//     segment: the dead records, the tombstones that are the latest record of their key, and the
//     latest tombstones whose key also has an older record in the log.
//  4. measure: compute for each segment what a rewrite would read, write and free, and which
//     tombstones and markers may be removed now.
//  5. choose: select the segments that must be rewritten, and segments whose rewrite frees much
//     space for its cost.
//  6. rewrite: merge each rewrite group into new segments, which replace the old ones at one commit
//     point. Dead batches are skipped without being read. Batches without dead records are copied
//     after a check of their checksum. Only batches with both dead and live records are decoded,
//     and their records are compared with the sidecar.
//  7. settle: write the .dead file of each segment, which contains the exact garbage of the segment
//     and the time at which each of its removable tombstones became removable.
//
// # Components
//
// pass runs the steps in order and owns the plans, one per segment. A step is a component with
// explicit inputs and outputs: sliceResolver (step 3), measurer (4), groupRewrite with batchReader,
// batchRebuilder and segmentWriter (6), and settler (7). ioMeter accounts for I/O and throttles it,
// memory accounts for buffers, followUp computes the time of the next pass that the log needs.
//
// # Invariants
//
//   - A pass that fails before its first rewrite has not changed the log. A later failure does not
//     undo the rewrite groups that were already replaced.
//   - A record is removed only if a newer record of its key remains in the log, or it has no key,
//     or its transaction was aborted, or it is below the log start offset, or it is a removable
//     tombstone or marker whose retention has ended. Each pass computes itself which records are
//     dead or removable; from the .dead files of earlier passes it uses only the times at which
//     tombstones and markers became removable.
//   - A tombstone is removed only if the log has contained no older record of its key for at least
//     the tombstone retention before the pass.
//   - Neither the offset of a record nor the last offset of a batch ever changes. The batch that
//     ends at the bound remains with its last record, unless that record was deleted or aborted.
//   - Memory stays within Limits.MemoryBytes for any number of keys. Not included are the buffers
//     of one batch (about twice its decompressed size) and a few dozen bytes per segment and per
//     aborted transaction. The bitmaps of a single segment may exceed the budget.
//
// # Concurrency
//
// The package starts no goroutine, takes no lock and reads no clock. Limits.Parallel may resolve
// several hash slices at once: its goroutines share the bitmaps and the I/O counters, which they
// modify atomically.
package clean
