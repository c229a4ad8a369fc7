package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked means that Lock failed because the file is already locked. Other errors wrap it.
var ErrLocked = errors.New("locked by another process")

// File is an open file. ReadAt may be called concurrently, even during a call of WriteAt. WriteAt
// must not be called concurrently with itself.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the name under which the file was opened; a rename does not change it.
	Name() string
	// Size returns the current size in bytes.
	Size() (int64, error)
	// Truncate shortens the file to size bytes, or extends it with zeros. The change is durable
	// after Sync.
	Truncate(size int64) error
	// Sync makes the content, the size and the modification time durable. It does not make the file's
	// name durable; SyncDir does that.
	Sync() error
}

// FS is the set of filesystem operations that the log store uses. Paths and errors are the same as
// in package os; for example, the error for a missing file wraps fs.ErrNotExist.
type FS interface {
	// Open opens an existing file for reading, and OpenReadWrite for reading and writing. Create
	// creates an empty file for reading and writing, or truncates an existing one.
	Open(name string) (File, error)
	OpenReadWrite(name string) (File, error)
	Create(name string) (File, error)
	// ReadFile returns the whole content of a file. It is intended for small files.
	ReadFile(name string) ([]byte, error)
	// Rename renames a file or directory, and replaces the file newName if it exists. The change is
	// durable after SyncDir was called for the directories of both names.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory. RemoveAll deletes a file, or a directory with its
	// contents, and succeeds if it does not exist. A file that is open remains usable. The removal is
	// durable after SyncDir of the parent directory. After a crash during RemoveAll, any part of the
	// tree may remain.
	Remove(name string) error
	RemoveAll(name string) error
	// MkdirAll creates a directory and its missing parents. It succeeds if the directory exists.
	MkdirAll(name string) error
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat returns the attributes of a file. The result does not change if the file changes later.
	Stat(name string) (fs.FileInfo, error)
	// Chtimes sets the modification time, which is durable after the file's Sync.
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(name string) error
	// Lock acquires an exclusive lock on a file, and creates the file if necessary. A second Lock
	// fails with ErrLocked, even in another process. Close, or the end of the process, releases the
	// lock.
	Lock(name string) (io.Closer, error)
	// Free returns the number of bytes available for new data.
	Free(name string) (uint64, error)
	// BootID identifies the current run of the machine, from its boot to its end. While it is the
	// same, everything that was written is readable, even if the process was killed before a sync. It
	// is "" if it is unknown.
	BootID() string
}
