// Package compress is the one table of the codecs of record batch v2: their names, numbers and
// levels, and how to compress and decompress a batch's records with each of them.
//
// Invariants:
//   - Decompress holds at most its limit of decoded bytes (and one block of the codec: at most 4
//     MiB for LZ4, 128 KiB for zstd), whatever sizes the input claims: ten kilobytes can claim
//     gigabytes.
//   - A Reader holds a piece of the data at a time, and takes no window above 8 MiB on a frame's
//     word. It reads what Decompress reads.
//   - What Compress writes looks as Kafka's own producer would write it (framing, flags, block
//     sizes), so that every client that reads Kafka reads us.
//   - Every level of Kafka's ranges (KIP-390) is taken. Effective says what our encoders make of
//     it; Compress goes by the same tables.
//   - A frame that Kafka's readers refuse is refused (docs/adr/0061).
//
// Everything here is safe for concurrent use. Encoders and decoders are pooled, because making one
// costs more than compressing a small batch with it. The package starts no goroutine.
package compress
