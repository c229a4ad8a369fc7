package vfs

// Cached tells how many bytes of a range of a file are in the operating system's page cache. ok is
// false where it does not say: on a Linux before 6.5, on other systems, and for files that OS has
// not opened.
func Cached(file File, offset, length int64) (bytes int64, ok bool) {
	onOSFile(file, func(fd int) { bytes, ok = cached(fd, offset, length) })
	return bytes, ok
}

// Uncache asks the operating system to drop a range of a file from its page cache. It drops what
// nobody maps or writes, whoever else may want to read it; what is not on the disk yet stays. It is
// a hint, and a file that OS has not opened has no cache.
func Uncache(file File, offset, length int64) {
	onOSFile(file, func(fd int) { uncache(fd, offset, length) })
}

// onOSFile calls do with the descriptor of a file that OS has opened, also behind a Handle.
func onOSFile(file File, do func(fd int)) {
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
	// it fails on a closed file, of which there is nothing to say
	_ = raw.Control(func(fd uintptr) { do(int(fd)) })
}
