package segmentlist

import (
	"errors"
	"syscall"
)

// Errors of every operation on a log.
var (
	// ErrStorage means that the disk failed. The error also wraps the cause.
	ErrStorage = errors.New("storage error")
	// ErrClosed means that the log was closed.
	ErrClosed = errors.New("log is closed")
)

// ErrChanged is returned if the segments of an operation are no longer in the log, or if
// the log was truncated meanwhile.
var ErrChanged = errors.New("segments changed meanwhile")

// IsTemporary reports whether an operation failed because the disk was full or no file descriptor
// was available. Such an operation may succeed later.
func IsTemporary(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE)
}
