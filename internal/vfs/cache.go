package vfs

// Cached returns how many bytes of a range of a file are in the operating system's page cache. ok
// is false if that is unknown: on Linux before 6.5, on other systems, and for files that OS has not
// opened.
func Cached(file File, offset, length int64) (bytes int64, ok bool) {
	withDescriptor(file, func(fd int) { bytes, ok = cached(fd, offset, length) })
	return bytes, ok
}

// Uncache asks the operating system to drop a range of a file from its page cache. The kernel drops
// pages that are neither mapped nor dirty, even if other processes may want to read them. It is
// only a hint, and has no effect on a file that OS has not opened.
func Uncache(file File, offset, length int64) {
	withDescriptor(file, func(fd int) { uncache(fd, offset, length) })
}

// withDescriptor calls do with the file descriptor of a file that OS has opened, also through a
// Handle.
func withDescriptor(file File, do func(fd int)) {
	if h, ok := file.(*Handle); ok {
		pinned, err := h.Pin()
		if err != nil {
			return
		}
		defer h.Unpin()
		file = pinned
	}
	of, ok := OSFile(file)
	if !ok {
		return
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return
	}
	// Control fails only on a closed file, for which do need not run.
	_ = raw.Control(func(fd uintptr) { do(int(fd)) })
}
