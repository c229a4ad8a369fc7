// Package datadir reads and writes the small files in a data directory and in its partitions'
// directories (docs/internals/format/store.md): ids, the reclaim policy, the clean-shutdown marker,
// the format level, the notes of a replica about its log (Notes), and the checkpoint files
// (Checkpoints). It also names the directories of released partitions and lists the directories
// whose data is kept.
//
// Every file is replaced atomically and durably. A malformed file causes an error that wraps
// ErrMalformed, unless a comment states how it is read. The functions acquire no lock; the caller
// orders the writes of one file.
package datadir
