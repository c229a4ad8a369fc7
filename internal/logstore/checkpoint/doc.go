// Package checkpoint encodes and decodes the checkpoint files of a data directory
// (docs/internals/format/checkpoints.md): one line per partition, per segment or per leader epoch,
// in Kafka's text format.
//
// The package is pure: it converts bytes to values and values to bytes. It opens no file, acquires
// no lock and reads no clock. Package logstore reads and writes the files, and decides how far it
// relies on each file.
//
// # Invariants
//
//   - Equal values are encoded as equal bytes, because lines are sorted. So a caller can compare
//     the content that it is about to write with the content on disk.
//   - One malformed line makes the whole file malformed (ErrMalformed), because the other lines of
//     a damaged file are not reliable either.
//   - Decoding never panics. The memory that it allocates is proportional to the size of the
//     content.
package checkpoint
