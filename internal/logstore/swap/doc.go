// Package swap replaces segments of a log by other segments, with one commit point that survives a
// crash (docs/internals/format/swap.md). It defines the names of segment files, and executes the
// steps of a swap (Dir). If a crash has interrupted a swap, Repair completes or reverts the swap.
// The steps and the repair are in the same package, because each depends on the order of the other.
//
// # Invariants
//
//   - As long as any .cleaned file exists, no .swap file is committed.
//   - The new segments get their final names in ascending order, each durably before the next. So
//     no .swap file is below a new segment that has its final name.
//
// The package acquires no lock. The caller holds the lock that excludes other changes of the log's
// files (Log.maintain), except for Create, which a roll calls.
package swap
