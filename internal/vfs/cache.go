package vfs

// Cached returns how many bytes of a file's range are in the operating system's page cache. ok is
// false if the number is unknown: on Linux before 6.5, on other systems, and for files that OS did
// not open.
func Cached(file File, offset, length int64) (bytes int64, ok bool) {
	withDescriptor(file, func(fd int) { bytes, ok = cached(fd, offset, length) })
	return bytes, ok
}

// Uncache asks the operating system to drop a file's range from its page cache. The kernel drops
// pages that are neither mapped nor dirty, even if other processes read them. The request is only a
// hint. It has no effect on a file that OS did not open.
func Uncache(file File, offset, length int64) {
	withDescriptor(file, func(fd int) { uncache(fd, offset, length) })
}

// withDescriptor calls do with the file descriptor of a file that OS has opened, directly or
// through a Handle. For other files it does nothing.
func withDescriptor(file File, do func(fd int)) {
	if h, ok := file.(*Handle); ok {
		pinned, err := h.Pin()
		if err != nil {
			return
		}
		defer h.Unpin()
		file = pinned
	}
	opened, ok := OSFile(file)
	if !ok {
		return
	}
	raw, err := opened.SyscallConn()
	if err != nil {
		return
	}
	// Control fails only if the file is closed; in that case it does not call do.
	_ = raw.Control(func(fd uintptr) { do(int(fd)) })
}
