package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked is the error of Lock when the file is already locked.
var ErrLocked = errors.New("locked by another process")

// File is an open file. ReadAt is safe for concurrent use, also with one concurrent writer.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the name under which the file was opened; a rename does not change it.
	Name() string
	// Size returns the current size in bytes.
	Size() (int64, error)
	// Truncate shortens the file to size bytes, or extends it with zeros. Durable after Sync.
	Truncate(size int64) error
	// Sync makes the content, the size and the modification time durable, but not the file's name;
	// SyncDir does that.
	Sync() error
}

// FS is the filesystem as the log store uses it. Paths and errors are those of package os: the
// error for a missing file wraps fs.ErrNotExist.
type FS interface {
	// Open opens a file for reading, OpenReadWrite for reading and writing; neither creates it.
	// Create creates an empty file, or truncates an existing one.
	Open(name string) (File, error)
	OpenReadWrite(name string) (File, error)
	Create(name string) (File, error)
	// ReadFile returns the whole content; use it for small files only.
	ReadFile(name string) ([]byte, error)
	// Rename replaces newName if it exists. Durable after SyncDir.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory. RemoveAll deletes a tree, and succeeds if it
	// does not exist. Open files remain usable. Durable after SyncDir of the parent; a crash may
	// leave any part of a tree.
	Remove(name string) error
	RemoveAll(name string) error
	// MkdirAll creates a directory and its missing parents; it succeeds if the directory exists.
	MkdirAll(name string) error
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat returns a snapshot: it does not follow later changes.
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time, which is durable after Sync of the file.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Lock acquires an exclusive lock on a file and creates the file if necessary. A second Lock
	// fails with ErrLocked, also from another process. Close, or the end of the process, releases
	// the lock.
	Lock(name string) (io.Closer, error)
	// Free returns the number of bytes available for new data.
	Free(name string) (uint64, error)
}
