package datadir

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/vfs"
)

// Notes are the small files in the directory of one log that its replica writes: the replica
// incarnation, the state of a copy from another replica, and the loss of records. Its methods may
// be called concurrently; the caller orders the writes of one file.
type Notes struct {
	fs   vfs.FS
	dir  string
	loss atomic.Pointer[loss] // nil: none
}

// NewNotes returns the notes in the directory of a log. It accesses no file.
func NewNotes(fsys vfs.FS, dir string) *Notes { return &Notes{fs: fsys, dir: dir} }
