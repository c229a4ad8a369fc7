package logstore

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/vfs"
)

// notes are the small files in the directory of one log that its replica writes: the replica
// incarnation, the state of a copy from another replica, and the loss of records. Its methods may
// be called concurrently; the caller orders the writes of one file.
type notes struct {
	fs   vfs.FS
	dir  string
	loss atomic.Pointer[loss] // nil: none
}

func newNotes(fsys vfs.FS, dir string) *notes { return &notes{fs: fsys, dir: dir} }
