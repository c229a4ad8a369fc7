// Package cleaner schedules the compaction of a store's logs. It decides which log is compacted
// next, when, with how much memory and I/O, and on which worker slot. It reports the state of the
// compaction as metrics and as status.
//
// The cleaner accesses a log only through logstore.Compaction, whose method Pass runs a pass.
// Package clean decides which records a pass removes. internal/logstore does not import this
// package.
//
// # Invariants
//
//   - One pass at a time runs over a log, and no pass starts before the previous one of the same
//     directory has ended.
//   - All passes together use at most the memory budget, minus the part that is reserved for key
//     sidecars and estimates. Only one sidecar or estimate is computed at a time.
//   - All reads and writes of passes, sidecars and estimates share one I/O budget.
//   - A failed pass quarantines its log only; retention and appends continue.
//   - Status and scheduler use the same function to decide whether a log needs a pass now. So
//     Status never reports a log as queued if the scheduler would not start its pass.
//
// # Locks
//
// The locks are acquired in this order: Cleaner.sidecarSlot, a worker slot, Cleaner.mu, the lock of
// workerSlots. Cleaner.mu guards the remaining state. It is held only for moments, and never
// together with a lock of a Log or the Store. The lock of the history (passlog.Log.mu) may be
// acquired while it is held. No lock is acquired while the lock of workerSlots is held.
//
// Cleaner.sidecarSlot is a channel, because it is held during I/O and a goroutine must be able to
// stop waiting for it. It is acquired before the locks of a log's sidecars. A pass that waits for
// it first releases its worker slot, because the holder of Cleaner.sidecarSlot may be waiting for a
// worker slot.
//
// # Goroutines
//
// A Cleaner has one goroutine that scans the logs and starts passes (schedule.go), one that builds
// key sidecars and estimates garbage (background.go), and one for each pass. A pass starts more
// goroutines for hash slices if worker slots are free (slots.go). Close waits for all of them.
// CleanOffline starts goroutines only for hash slices, and waits for them.
package cleaner
