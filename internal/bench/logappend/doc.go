// Package logappend measures what it costs to append to a log and to read it back: a real log on a
// real disk, with the checks and the recompression of a produce. It is behind `heartwood bench
// append`; docs/bench/append.md holds figures.
//
// Invariants:
//   - The same options give the same batches, byte for byte, whatever the machine: records are made
//     from a seed.
//   - Batches are made before the clock starts, and not copied while it runs: what is measured is
//     the broker's share.
package logappend
