package vfs

import (
	"io"
	"io/fs"
	"time"
)

// File is an open file. ReadAt is safe for concurrent use, also beside one writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the content durable.
	Sync() error
}

// FS is the filesystem as the log store uses it. Paths are as in package os.
type FS interface {
	// Open opens for reading, OpenReadWrite for both; neither creates. Create makes a new, empty file or empties an old one.
	Open(name string) (File, error)
	OpenReadWrite(name string) (File, error)
	Create(name string) (File, error)
	ReadFile(name string) ([]byte, error)
	// Rename replaces newName if it is there; durable after SyncDir.
	Rename(oldName, newName string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(name string) error
	// ReadDir lists names, sorted.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive lock on a file, creating it; a second Lock fails with ErrLocked, also from another process.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes left for new data.
	Free(name string) (uint64, error)
}

// WriteFileAtomic replaces a file's content so that a crash leaves the old or the new: temporary file, sync, rename, sync of
// the directory.
func WriteFileAtomic(fsys FS, name string, content []byte) error { panic("unwritten") }
