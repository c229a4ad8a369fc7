// Package keys is the key sidecar of a segment, `<base>.keys`: which keys its records have, by hash
// and in the order of the hash, so that a cleaner resolves any number of keys in a fixed memory, by
// reading a slice of the hashes from all segments at a time and without reading a record.
// docs/format/keys.md has the bytes; docs/format/key-salt.md those of the salt.
//
//   - Hash and Hasher: SipHash-2-4 with a secret salt, 96 bits of it (reference F5).
//   - Spool takes the records of a segment in the order of the log, as they are appended or as a
//     scan meets them (Scan), and keeps them in a file, but for a few KiB.
//   - Build sorts a spool and writes the sidecar, in a memory that is given, whatever the number of
//     records. Derive writes that of a cleaned segment from the sidecars of its sources, without a
//     key being hashed again.
//   - Reader reads one: batches, records, and the entries of any range of hashes, in one short
//     sequential read each.
//
// # Words
//
// An ordinal is a record's number within its segment, from 0, over all batches; records of opaque
// batches have none. An entry is what stands for a record with a key. A record without a key has an
// ordinal and no entry; so has the record of a control batch, whose key is not a user's (I12).
//
// # Invariants
//
//   - A sidecar is a cache. It is believed as far as three things hold: checksums over every byte,
//     the salt's id, and the identity of the data file (Identity), which any rewrite and any cut
//     changes. Else ErrCorrupt or ErrStale: the answer is to make it anew.
//   - A sidecar has every record of its segment, or it is not there. Build checks that counts and
//     identity are those of the data.
//   - It appears under its name complete and synced: temporary file, sync, rename, sync of the
//     directory.
//   - Ordinals are those of one generation of the data file (F13): nothing that names ordinals
//     outlives a rewrite.
//   - Memory is bounded for all that is read or written: by BuildOptions.MemoryBytes, or by some
//     pages for each open iterator.
//
// The package starts no goroutine, takes no lock and reads no clock. A Spool belongs to one
// goroutine at a time; a Reader may be used by many, each iterator by one.
package keys
