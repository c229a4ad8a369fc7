// Package datadir reads and writes the small files of a data directory and of the directories of
// its partitions (docs/format/store.md): ids, the reclaim policy, the clean-shutdown marker, the
// format level, what a replica stores with its log (Notes), and the checkpoint files (Checkpoints).
// It names the directories of released partitions and lists those whose data is kept.
//
// Every file is replaced atomically and durably. A malformed file is an error that wraps
// ErrMalformed, except where a comment says what it is read as. The functions acquire no lock; the
// caller orders the writes of one file.
package datadir
