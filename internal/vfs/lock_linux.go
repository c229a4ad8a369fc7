package vfs

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// ofdSetLock is F_OFD_SETLK in fcntl(2), which package syscall does not define. It sets a record
// lock that belongs to the open file description.
const ofdSetLock = 37

// lockRecord acquires a record lock on the whole file. The lock conflicts with a Kafka broker's
// lock: Java's FileChannel.lock uses record locks, which do not conflict with flock. Like flock,
// this kind of record lock belongs to the open file and not to the process, so closing another
// descriptor of the same file does not release it. On a filesystem that does not support such
// locks, lockRecord does nothing.
func lockRecord(file *os.File) error {
	whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err := syscall.FcntlFlock(file.Fd(), ofdSetLock, &whole)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return ErrLocked
	}
	return nil
}
