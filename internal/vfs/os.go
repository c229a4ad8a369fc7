package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// OS is the operating system's filesystem.
type OS struct{}

var _ FS = OS{}

type osFile struct{ *os.File }

// OSFile returns the *os.File of a file that OS has opened, because sendfile needs it. It
// returns false for any other file: for example, sendfile must not bypass a Fault.
func OSFile(file File) (*os.File, bool) {
	opened, ok := file.(osFile)
	return opened.File, ok
}

// Size implements File.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

// OpenReadWrite implements FS.
func (OS) OpenReadWrite(name string) (File, error) { return open(name, os.O_RDWR) }

// Create implements FS.
func (OS) Create(name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }

// open opens a file, and returns a nil File if it fails. It must not wrap the nil *os.File that
// os.OpenFile returns then, because the result would be a non-nil File.
func open(name string, flag int) (File, error) {
	file, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

// ReadFile implements FS.
func (OS) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, 0o755) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Chtimes implements FS.
func (OS) Chtimes(name string, mtime time.Time) error {
	return os.Chtimes(name, time.Time{}, mtime)
}

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if closed := dir.Close(); err == nil {
		err = closed
	}
	return err
}

// BootID implements FS. Only Linux has such an id.
func (OS) BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Lock implements FS with flock. The lock belongs to the open file and not to the process, so a
// second Lock in the same process fails as well. The kernel releases the lock when the process ends
// in any way.
func (OS) Lock(name string) (io.Closer, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if err := lockRecord(file); err != nil {
		_ = file.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return file, nil
}

// Free implements FS. It does not include space that is reserved for privileged processes.
func (OS) Free(name string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(name, &stat); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", name, err)
	}
	//nolint:unconvert // the field types differ between systems
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil
}

// Size returns the size in bytes of the filesystem that contains the named file, without free space
// that is reserved for privileged processes. So 1 - Free/Size is the used share that df shows.
func (OS) Size(name string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(name, &stat); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", name, err)
	}
	//nolint:unconvert // the field types differ between systems
	return usableBlocks(uint64(stat.Blocks), uint64(stat.Bfree), uint64(stat.Bavail)) *
		uint64(stat.Bsize), nil
}

// usableBlocks returns the number of blocks in a filesystem that are used or that an unprivileged
// process can use.
func usableBlocks(blocks, free, available uint64) uint64 {
	if free > blocks || available > free {
		return blocks // no space is reserved
	}
	return blocks - free + available
}
