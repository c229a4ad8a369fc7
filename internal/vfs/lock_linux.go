package vfs

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// ofdSetLock is F_OFD_SETLK of fcntl(2), which package syscall does not define: a record lock that
// belongs to the open file description.
const ofdSetLock = 37

// lockRecord acquires a record lock on the whole file. Java's FileChannel.lock uses record locks,
// and so does a Kafka broker for its data directory; flock does not conflict with them. This lock
// belongs to the open file, as with flock, and not to the process: closing another descriptor of
// the same file does not release it. On a filesystem without such locks it does nothing.
func lockRecord(file *os.File) error {
	whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err := syscall.FcntlFlock(file.Fd(), ofdSetLock, &whole)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return ErrLocked
	}
	return nil
}
