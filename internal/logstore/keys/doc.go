// Package keys reads and writes key sidecars, `<base>.keys`: the hashes of the keys of a segment's
// records, sorted by hash. With key sidecars the cleaner can deduplicate any number of keys in a
// fixed amount of memory: it reads one range of hashes at a time from the sidecars of all segments,
// and reads no records. docs/internals/format/keys.md describes the file,
// docs/internals/format/key-salt.md the salt.
//
//   - Hash and Hasher: SipHash-2-4 with a secret salt, truncated to 96 bits (F5 in
//     docs/internals/cleaner-invariants.md).
//   - Spool collects the key hashes of a segment in the order of the log, when its records are
//     appended or scanned (Scan). It keeps a few KiB in memory and the other hashes in a file.
//   - Build sorts the hashes in a spool and writes the sidecar. Its memory does not depend on the
//     number of records. Derivation writes the sidecar of a cleaned segment from the sidecars of
//     its sources, without hashing a key again.
//   - Reader reads a sidecar: batches, records, and the entries of any range of hashes, each in one
//     short sequential read.
//
// # Terms
//
// The ordinal of a record is its number within its segment, from 0, over all batches; the records
// of opaque batches have no ordinals. An entry represents a record with a key. A record without a
// key has an ordinal but no entry. The same applies to the record of a control batch, because its
// key is not a user's key (I12).
//
// # Invariants
//
//   - A sidecar is a cache. It is used only if the checksums over every byte, the salt's id, and
//     the identity of the data file (Identity) match; each rewrite and truncation changes the
//     identity. Otherwise reading the sidecar fails with ErrCorrupt or ErrStale, and the caller
//     rebuilds the sidecar.
//   - A sidecar contains every record of its segment. Build checks the number of entries and the
//     identity of the data before it publishes the sidecar.
//   - A file with the name of a sidecar is complete and synced. Build writes a temporary file,
//     syncs it, renames it, and syncs the directory.
//   - Ordinals are valid for one generation of the data file only (F13): no file that contains
//     ordinals is used after a rewrite.
//   - Memory is bounded for all reads and writes: by Options.MemoryBytes, or by a few pages for
//     each open iterator.
//
// # Concurrency
//
// The package starts no goroutine, takes no lock and reads no clock. A Spool may be used by one
// goroutine at a time. A Reader may be used concurrently, but each of its iterators by one
// goroutine only.
package keys
