package vfs

import (
	"fmt"
	"syscall"
)

// OpenFilesLimit is this process's limit on file descriptors. When Soft descriptors are open, no
// more files or connections can be opened. The process may raise Soft up to Hard.
type OpenFilesLimit struct{ Soft, Hard uint64 }

// OpenFiles returns this process's limit on file descriptors.
func OpenFiles() (OpenFilesLimit, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return OpenFilesLimit{}, fmt.Errorf("read limit of open files: %w", err)
	}
	return OpenFilesLimit{Soft: limit.Cur, Hard: limit.Max}, nil
}

// RaiseOpenFiles raises this process's soft limit on file descriptors to the hard limit, and
// returns the resulting limit. Go's runtime does the same at startup, but does not report failures.
func RaiseOpenFiles() (OpenFilesLimit, error) {
	limit, err := OpenFiles()
	if err != nil || limit.Soft == limit.Hard {
		return limit, err
	}
	raised := syscall.Rlimit{Cur: limit.Hard, Max: limit.Hard}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
		return limit, fmt.Errorf("raise limit of open files from %d to %d: %w", limit.Soft,
			limit.Hard, err)
	}
	return OpenFiles()
}
