package vfs

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// ofdSetLock is F_OFD_SETLK of fcntl(2), which package syscall does not name: a record lock that
// belongs to the open file.
const ofdSetLock = 37

// lockAsJava takes the record lock that Java's FileChannel.lock takes, and so a Kafka broker on its
// data directory: flock does not see it. Ours belongs to the open file as flock's does, and not to
// the process, where closing any other file of that name would end it. A filesystem that knows no
// such locks has none to be in the way.
func lockAsJava(file *os.File) error {
	whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err := syscall.FcntlFlock(file.Fd(), ofdSetLock, &whole)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return ErrLocked
	}
	return nil
}
