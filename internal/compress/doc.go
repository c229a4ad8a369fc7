// Package compress implements the codecs of record batch v2: their names, numbers and levels, and
// the compression and decompression of a batch's records.
//
// Invariants:
//   - Decompress holds at most limit decoded bytes and one block of the codec (at most 4 MiB for
//     LZ4, 128 KiB for zstd). The sizes that the input claims have no effect: ten kilobytes can
//     claim gigabytes.
//   - A Reader holds one piece of the data at a time. If a zstd frame declares a window above 8
//     MiB, the Reader decodes this frame and all data after it in memory, up to its limit. It
//     accepts the same input as Decompress.
//   - Compress writes what Kafka's own producer would write (framing, flags, block sizes), so that
//     every client that can read from Kafka can read from Heartwood.
//   - Every level in Kafka's ranges (KIP-390) is accepted. Effective returns the encoder setting
//     for a level; Compress uses the same tables.
//   - A frame that Kafka's readers refuse is refused (ADR 0061).
//
// Everything here is safe for concurrent use. Encoders and decoders are pooled, because creating
// one costs more than compressing a small batch with it. The package starts no goroutine.
package compress
