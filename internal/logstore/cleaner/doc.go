// Package cleaner schedules the compaction of a store's logs: it decides which log is compacted
// next, when, with how much memory and I/O, and on which worker slot. It reports the state of the
// compaction as metrics and status.
//
// It works on a log only through logstore.Compaction, which runs the pass itself. Package clean
// decides which records a pass removes. internal/logstore does not import this package.
//
// # Invariants
//
//   - One pass at a time runs over a log, and no pass starts before the previous one of the same
//     directory has ended.
//   - The passes together hold at most the memory budget less the part that is set aside for key
//     sidecars and estimates, of which one is computed at a time.
//   - All reads and writes of passes, sidecars and estimates share one I/O budget.
//   - A failed pass quarantines its log only; retention and appends continue.
//   - Status and scheduler use the same function to decide whether a pass is due, so Status never
//     reports a log as queued whose pass the scheduler would not start.
//
// # Locks
//
// In this order: Cleaner.sidecarSlot, a worker slot, the lock of workerSlots. Cleaner.mu guards the
// rest of the state, is held for moments only, and never together with a lock of a Log or the
// Store. workerSlots' lock may be taken with Cleaner.mu held, and no lock is taken under it.
//
// Cleaner.sidecarSlot is a channel, because it is held over I/O and a waiter must be able to leave.
// It comes before the locks of a log's sidecars. A pass that waits for it first releases its worker
// slot, because the holder of Cleaner.sidecarSlot may be waiting for a worker slot.
//
// # Goroutines
//
// A Cleaner has one goroutine that looks at the logs (schedule.go), one that builds key sidecars
// and estimates garbage (background.go), and one for each pass, which starts more while it resolves
// hash slices and worker slots are free (slots.go). Close joins all of them. Offline starts
// goroutines for hash slices only, and joins them.
package cleaner
