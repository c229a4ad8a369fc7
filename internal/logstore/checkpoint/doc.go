// Package checkpoint encodes and decodes the checkpoint files of a data directory
// (docs/format/checkpoints.md): one line per partition, per segment or per leader epoch, in Kafka's
// text format.
//
// The package is pure: bytes in, values out. It opens no file, takes no lock and reads no clock;
// internal/logstore reads and writes the files, and decides how far it relies on each.
//
// # Invariants
//
//   - Equal values are encoded as equal bytes: lines are sorted. A caller can compare the content
//     it is about to write with the content on disk.
//   - One malformed line makes the whole file malformed (ErrMalformed): the other lines of a
//     damaged file are no more reliable.
//   - Decoding never panics, and allocates no more than in proportion to the content.
package checkpoint
