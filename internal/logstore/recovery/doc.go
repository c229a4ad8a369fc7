// Package recovery recovers one log from its directory (Run): it repairs what a crash has
// interrupted, opens the segments below the recovery point, scans the segments above it, and
// rebuilds the producer state, the leader epochs and the transaction indexes as far as the files do
// not contain them. The caller installs the result (Found).
//
// # Invariants
//
//   - If Run fails, no file of the log is open.
//   - Everything below the recovery point on disk survives a crash. If recovery finds a gap above
//     the recovery point, data was lost, and the log ends at the gap (ADR 0015).
//   - Before any file is changed, the files are known to be in a supported format.
//
// No lock is needed, because no other goroutine uses the log yet.
package recovery
