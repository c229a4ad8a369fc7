// Package keys reads and writes key sidecars, `<base>.keys`: the hashes of the keys of a segment's
// records, in the order of the hashes. With them a cleaner deduplicates any number of keys in a
// fixed memory: it reads one slice of the hashes of all segments at a time, and no record.
// docs/format/keys.md describes the file, docs/format/key-salt.md the salt.
//
//   - Hash and Hasher: SipHash-2-4 with a secret salt, truncated to 96 bits (reference F5).
//   - Spool takes the records of a segment in the order of the log, when they are appended or
//     scanned (Scan), and holds them in a file but for a few KiB.
//   - Build sorts a spool and writes the sidecar, in a given memory, whatever the number of
//     records. Derivation writes the sidecar of a cleaned segment from those of its sources,
//     without hashing a key again.
//   - Reader reads a sidecar: batches, records, and the entries of any range of hashes, each in one
//     short sequential read.
//
// # Terms
//
// The ordinal of a record is its number within its segment, from 0, over all batches; records of
// opaque batches have none. An entry represents a record with a key. A record without a key has an
// ordinal and no entry, and so has the record of a control batch, whose key is not a user's (I12).
//
// # Invariants
//
//   - A sidecar is a cache. It is used only if the checksums over every byte, the salt's id, and
//     the identity of the data file (Identity) match; each rewrite and truncation changes the
//     identity. Otherwise reading it fails with ErrCorrupt or ErrStale, and the sidecar is rebuilt.
//   - A sidecar has every record of its segment, or it does not exist. Build checks that counts and
//     identity are those of the data.
//   - A sidecar appears under its name complete and synced: temporary file, sync, rename, sync of
//     the directory.
//   - Ordinals belong to one generation of the data file (F13): nothing that contains ordinals is
//     used after a rewrite.
//   - Memory is bounded for all reads and writes: by Options.MemoryBytes, or by a few pages for
//     each open iterator.
//
// # Concurrency
//
// The package starts no goroutine, takes no lock and reads no clock. A Spool belongs to one
// goroutine at a time. A Reader may be used concurrently, each iterator by one goroutine.
package keys
