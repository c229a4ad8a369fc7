// Package logappend measures appending to a log and reading it back: a real log on a real disk,
// with the validation and recompression of a produce request. It implements `heartwood bench
// append`; docs/internals/bench/append.md contains figures.
//
// Invariants:
//   - The same options give the same batches, byte for byte, on any machine: records are generated
//     from a seed.
//   - Batches are generated before the measurement and not copied during it, so the figures
//     contain only the work of a broker.
package logappend
