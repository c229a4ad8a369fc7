// Package record implements Kafka's record batch, version 2: a view over the bytes of one batch,
// iterators over its records (in memory or streamed from a file), a builder, and the validation of
// produced batches. docs/format/batch.md describes the bytes.
//
// Invariants:
//   - Invalid bytes return an error that wraps ErrCorrupt and never cause a panic. No size field
//     determines an allocation before it is checked: decompression stops at a limit, and each count
//     is compared with the number of remaining bytes.
//   - A batch that the builder makes of some records reads back with equal offsets, timestamps,
//     keys, values and headers.
//   - The checksum covers everything from the attributes on. Base offset and leader epoch precede
//     the attributes, so that a log can set them in place.
//
// The package is pure: it starts no goroutine and reads no clock. Callers pass the current time.
package record
