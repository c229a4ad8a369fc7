// Package record is Kafka's record batch, version 2: a view over the bytes of one batch, iterators
// over its records, in memory or as they come out of a file, a builder that makes batches, and the
// check of what producers send. docs/format/batch.md shows the bytes.
//
// Invariants:
//   - Bad bytes give an error that wraps ErrCorrupt, never a panic, and nothing is allocated by a
//     size that the bytes claim: decompression stops at a limit, and counts are checked against the
//     bytes that are left.
//   - What the builder makes of a batch's records reads back with equal offsets, timestamps, keys,
//     values and headers.
//   - The checksum covers everything from the attributes on. Base offset and leader epoch lie
//     before it, so that a log can set them in place.
//
// All of it is pure: no goroutine, no clock; time comes in as now.
package record
