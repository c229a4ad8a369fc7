// Package logstore stores the logs of partitions in one data directory: append, read, roll,
// retention, truncation, recovery and checkpoints, in Kafka's file formats (docs/format/store.md,
// checkpoints.md, swap.md). It gives package cleaner a view of each log (Compaction).
//
// # Invariants
//
//   - LogStart <= HighWatermark <= LogEnd; LogStart <= LastStable <= HighWatermark. While a log is
//     open they fall only by TruncateTo and StartAt, which lower the offsets before they publish
//     the segment list: a reader loads LogEnd again once it has its list.
//   - Every transaction below LastStable is decided, and each aborted transaction that overlaps
//     that range has an entry in the transaction index of the segment that holds its marker.
//   - DurableEnd <= LogEnd; under durability Fsync the high watermark never exceeds the synced end
//     (ADR 0050).
//   - The recovery point on disk is at or below the synced end. Everything below it survives a
//     crash; recovery scans only what is above.
//   - A segment is cleaned only below the recovery point on disk. So segments above it join without
//     a gap, and a gap that recovery finds there is lost data, at which the log ends (ADR 0015).
//   - The files of a segment exist as long as anything refers to it: the log's list, a Slice, a
//     pass of the cleaner (segmentlist.go).
//
// # Locks
//
// In this order: Store.changes; Log.truncating; Log.maintain or Store.saving, never both; Log.mu;
// Log.stable; Store.mu.
//
//   - Log.truncating: one TruncateTo or StartAt at a time.
//   - Log.stable: the high watermark and the state behind the last stable offset; never held over
//     I/O.
//   - Store.changes: one Create, Release or Close at a time.
//   - sidecars.building: one build of key sidecars per log at a time. It is held over I/O and
//     waits, so it is a channel, and waiters can give up; Log.maintain is acquired after it, to
//     publish the sidecar under its name. Package cleaner has a slot for such builds in all logs
//     (SidecarSlot), which is acquired before it.
//   - Log.maintain: one flush, retention, swap or close at a time. They write, sync and rename
//     under it.
//   - Log.mu: producer state, leader epochs, durability, the end of the active segment, and every
//     change of the segment list. An append writes under it, which may open the files of a segment.
//     Only the small epoch file is synced under it: by Lead, by the first replicated batch of an
//     epoch, by a truncation, and when the log start passes an epoch.
//   - committer.mu: the logs that wait for a sync; a leaf. Group commit syncs without any of these
//     locks (commit.go).
//   - Store.mu: the map of logs. Store.saving: one writer of checkpoint files at a time.
//
// Readers acquire no lock but Log.stable: the segment list is an immutable snapshot behind an
// atomic pointer, and offsets are atomics. Reports, metrics and the scheduling of the cleaner are
// readers too: Log.mu may be held for as long as a write to the disk takes.
//
// # Goroutines
//
// A Store has one, Store.run: flush, checkpoints, roll by time, retention, expiry of producers,
// deletion of released directories, and the Failed callback. It distributes a round over a few
// workers and joins them; so do Open, CreateAll and Close. The committer has up to sixteen while
// logs wait for a sync; Close joins them.
package logstore
