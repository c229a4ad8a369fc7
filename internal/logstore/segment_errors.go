package logstore

import (
	"errors"
	"syscall"
)

// errSegmentsChanged is returned if the segments of an operation are no longer in the log, or if
// the log was truncated meanwhile.
var errSegmentsChanged = errors.New("segments changed meanwhile")

// isTemporary reports whether an operation failed because the disk was full or no file descriptor
// was available. Such an operation may succeed later.
func isTemporary(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE)
}
