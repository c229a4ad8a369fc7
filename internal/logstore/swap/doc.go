// Package swap replaces segments of a log by others, with one commit point that survives a crash
// (docs/format/swap.md). It defines the names of segment files, executes the steps of a swap (Dir),
// and completes or reverts in Repair what a crash has interrupted. The steps and the repair are
// side by side, because each depends on the order of the other.
//
// # Invariants
//
//   - As long as any .cleaned file exists, no .swap file is committed.
//   - The new segments get their final names in ascending order, each durably before the next. So
//     no .swap file is below a new segment that has its final name.
//
// The package acquires no lock. The caller holds the lock that excludes other changes of the files
// of the log (Log.maintain), except for Create, which a roll calls.
package swap
