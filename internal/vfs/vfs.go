package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked is what Lock fails with when the file is locked already.
var ErrLocked = errors.New("locked by another process")

// File is an open file. ReadAt is safe for concurrent use, also beside one writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name the file was opened under; a rename does not change it.
	Name() string
	// Size is in bytes, as of now.
	Size() (int64, error)
	// Truncate cuts the file to size bytes, or grows it with zeros. Durable after Sync.
	Truncate(size int64) error
	// Sync makes the content, the size and the modification time durable, but not the file's name:
	// that is SyncDir's.
	Sync() error
}

// FS is the filesystem as the log store uses it. Paths are as in package os, and so are errors: a
// missing file wraps fs.ErrNotExist.
type FS interface {
	// Open opens for reading, OpenReadWrite for both; neither creates. Create makes a new, empty
	// file or empties an old one.
	Open(name string) (File, error)
	OpenReadWrite(name string) (File, error)
	Create(name string) (File, error)
	// ReadFile returns the whole content: for small files only.
	ReadFile(name string) ([]byte, error)
	// Rename replaces newName if it is there; durable after SyncDir.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory, RemoveAll a tree, and what is missing is no
	// error for it. Open files can be used on. Durable after SyncDir of the parent; a crash may
	// leave any part of a tree.
	Remove(name string) error
	RemoveAll(name string) error
	// MkdirAll makes a directory and what is missing above it; one that is there is no error.
	MkdirAll(name string) error
	// ReadDir lists names, sorted.
	ReadDir(name string) ([]fs.DirEntry, error)
	// of what the name says now; it does not follow later changes
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time, which is durable after Sync of the file.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive lock on a file, creating it; a second Lock fails with ErrLocked, also
	// from another process. The lock ends with Close, or with the process.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes left for new data.
	Free(name string) (uint64, error)
}
