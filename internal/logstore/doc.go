// Package logstore stores the logs of partitions in one data directory: append, read, roll,
// retention, truncation, recovery and checkpoints, in Kafka's file formats
// (docs/internals/format/store.md, checkpoints.md, swap.md). It gives package cleaner a view of
// each log (Compaction).
//
// # Invariants
//
//   - LogStart <= HighWatermark <= LogEnd; LogStart <= LastStable <= HighWatermark. While a log is
//     open, these offsets fall only in TruncateTo and StartAt, which lower the offsets before they
//     publish the new segment list. A reader therefore loads LogEnd again after it has loaded the
//     list.
//   - Every transaction below LastStable is committed or aborted. Each aborted transaction with a
//     record below LastStable has an entry in the transaction index of the segment that contains
//     its marker.
//   - DurableEnd <= LogEnd; under durability Fsync the high watermark never exceeds the synced end
//     (ADR 0050).
//   - The recovery point on disk is at or below the synced end. Everything below the recovery point
//     survives a crash; recovery scans only the part of the log above it.
//   - A log never ends below the recovery point on disk, and after a clean shutdown it has every
//     segment and every record that it had. If recovery finds less, files were removed or replaced,
//     or the disk has lost synced data. The log then has a Loss, which is stored in its directory
//     before any checkpoint is written (recovery.LossOf, ADR 0315).
//   - Only segments below the recovery point on disk are cleaned. Above the recovery point each
//     segment therefore begins where the previous one ends. If recovery finds a gap between two of
//     these segments, data was lost, and recovery ends the log at the gap (ADR 0015).
//   - The files of a segment exist as long as something refers to the segment: the log's segment
//     list, a Slice, or a pass of the cleaner (package segmentlist).
//
// # Locks
//
// Locks are acquired in this order: Store.changes; Log.truncating; Log.maintain or Store.saving,
// never both; epochfile.File.writing; Log.mu; the mutex of Log.offsets; Store.mu.
//
//   - Log.truncating: one TruncateTo or StartAt at a time.
//   - Log.offsets: the high watermark and the state from which the last stable offset is computed;
//     never held during I/O.
//   - Store.changes: one Create, Release or Close at a time. A log that closes first cancels its
//     repairs and waits for them (parallel.Tasks).
//   - Set.building of package sidecars: one build of key sidecars per log at a time. A build first
//     acquires sidecars.Slot, which package cleaner provides for the builds in all logs, then
//     Set.building, and last Log.maintain, to publish the sidecar.
//   - Log.maintain: one flush, retention, swap or close at a time. Each of these writes, syncs and
//     renames files while it holds the lock.
//   - Log.mu: producer state, leader epochs, durability, the end of the active segment, and every
//     change of the segment list. An append holds Log.mu while it writes, and may open the files of
//     a segment meanwhile. The only file that is synced under Log.mu is the small file of leader
//     epochs: by a truncation, and when the log start passes the end of an epoch.
//   - epochfile.File.writing: one write of the file of leader epochs at a time.
//   - committer.mu: the logs that wait for a sync. No other lock is acquired while it is held.
//     Group commit syncs the files without any of these locks (commit.go).
//   - Store.mu: the map of logs. Store.saving: one writer of checkpoint files at a time.
//
// Readers acquire only the mutex of Log.offsets: the segment list is an immutable snapshot behind
// an atomic pointer, and offsets are atomics. Reports, metrics and the scheduling of the cleaner do
// not acquire Log.mu either, because an append may hold it for as long as a write to the disk
// takes.
//
// # Goroutines
//
// A Store has two permanent goroutines. Store.run flushes logs, writes checkpoints, rolls segments
// by time, runs retention, expires producers and calls Options.Failed. It starts and joins
// Store.deleteReleasedDirectories, which deletes the directories of released partitions. Each round
// of Store.run starts a few worker goroutines and waits for them. Open, CreateAll and Close do the
// same. The committer runs up to sixteen goroutines while logs wait for a sync; Close waits for
// them.
package logstore
