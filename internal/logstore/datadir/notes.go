package datadir

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/vfs"
)

// Notes are the small files that a replica writes into its log's directory: the replica
// incarnation, the state of a copy from another replica, and the loss of records. Its methods may
// be called concurrently, but the caller orders the writes of one file.
type Notes struct {
	fs   vfs.FS
	dir  string
	loss atomic.Pointer[loss] // nil if no loss is known
}

// NewNotes returns the notes in a log's directory. It accesses no file.
func NewNotes(fsys vfs.FS, dir string) *Notes { return &Notes{fs: fsys, dir: dir} }
