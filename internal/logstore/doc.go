// Package logstore keeps partitions' logs in one data directory: append, read, roll, retention,
// recovery and checkpoints, in Kafka's file formats (docs/format/store.md, checkpoints.md,
// swap.md). A cleaner works on the logs of a store.
//
// # Invariants
//
//   - LogStart <= HighWatermark <= LogEnd; LogStart <= LastStable <= HighWatermark. While a log is
//     open they fall only by TruncateTo and StartAt: offsets first, then the list, so that a reader
//     looks at LogEnd again when it has its list (truncate.go).
//   - Nothing below LastStable is undecided, and each aborted transaction that overlaps it stands
//     in the transaction index of the segment that holds its marker.
//   - DurableEnd <= LogEnd; under durability Fsync nothing at or above what is synced counts for the
//     high watermark (ADR 0050).
//   - recovery point on disk <= what is synced. Everything below it survives a crash; only what
//     lies above is scanned.
//   - A segment is cleaned only below the recovery point on disk. So above it segments join without
//     a gap, and a gap found there by recovery is lost data, at which the log ends (ADR 0015).
//   - The files of a segment live as long as something refers to it: the log's list, a Slice, a
//     pass of the cleaner (snapshot.go).
//
// # Locks
//
// In this order: Store.changes; Log.truncating; Log.maintain or Store.saving, never both; Log.mu;
// Log.stable; Store.mu.
//
//   - Log.truncating: one TruncateTo or StartAt at a time.
//   - Log.stable: the high watermark and what the last stable offset is made of; held for moments,
//     never over I/O.
//   - Store.changes: one Create, Release or Close at a time.
//   - sidecars.making: one maker of key sidecars at a time. It is held over I/O and waits, so it is
//     a channel that those who wait can leave; Log.maintain is taken behind it, to give a sidecar
//     its name.
//   - Cleaner.maker: one maker of key sidecars in all logs, or of an estimate; a channel too, taken
//     before sidecars.making and before a worker (cleaner_turns.go): who waits for it holds
//     neither.
//   - Log.maintain: one of flush, retention, replaceIn and close at a time. They write, sync
//     and rename under it.
//   - Log.mu: producers, leader epoch, the end of the active segment, and every change of the
//     segment list. An append writes under it, and so does a segment whose files have to be opened
//     for it; nothing is synced under it but the few bytes of the epoch file: by Lead, by the first
//     replicated batch of an epoch, by a truncation, and when the log start passes an epoch.
//   - committer.mu: which logs wait for a sync; a leaf. Group commit syncs without any of these
//     locks (commit.go).
//   - Store.mu: the map of logs. Store.saving: one writer of checkpoint files at a time.
//
// Readers take no lock but Log.stable: the segment list is an immutable snapshot behind an atomic
// pointer, offsets are atomics. Reports, metrics and the cleaner's look at what is due are readers
// too: Log.mu may be held for as long as the disk takes for a write.
//
// # Goroutines
//
// A Store has one, Store.run: flush, checkpoints, timed roll, retention, expiry of producers,
// deletion of released directories and the Failed callback. It spreads a round over a few more and
// joins them; so do Open, CreateAll and Close. The committer has up to sixteen while logs wait for
// a sync; Close joins them. A Cleaner has its own.
package logstore
