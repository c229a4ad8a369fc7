package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func cached(fd int, offset, length int64) (bytes int64, ok bool) {
	var found unix.Cachestat_t
	span := unix.CachestatRange{Off: uint64(offset), Len: uint64(length)}
	if err := unix.Cachestat(uint(fd), &span, &found, 0); err != nil {
		return 0, false
	}
	return min(length, int64(found.Cache)*int64(os.Getpagesize())), true
}

func uncache(fd int, offset, length int64) {
	// The request is only a hint, so ignore an error.
	_ = unix.Fadvise(fd, offset, length, unix.FADV_DONTNEED)
}
