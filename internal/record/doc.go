// Package record implements Kafka's record batch, version 2. It contains a view of the bytes of one
// batch, iterators over its records (in memory or streamed from a file), a builder, and the
// validation of produced batches. docs/internals/format/batch.md describes the bytes.
//
// Invariants:
//   - For invalid bytes, functions return an error that wraps ErrCorrupt; they never panic. A size
//     field is checked before memory is allocated for it: decompression stops at a limit, and each
//     count is compared with the number of remaining bytes.
//   - Records that are read back from a built batch have the same offsets, timestamps, keys, values
//     and headers as the records that were added.
//   - The checksum covers everything from the attributes on. Base offset and leader epoch precede
//     the attributes, so that a log can set them in place.
//
// The package is pure: it starts no goroutine and reads no clock. Callers pass the current time.
package record
