package wire

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfileWorks is true on platforms for which this package implements sendfile. It is a constant,
// so that each platform compiles only the code that it uses (ADR 0037).
const sendfileWorks = true

// sendfile sends at most n bytes of a file, starting at a position, and returns how many bytes it
// sent. It waits for space in the socket until the socket's write deadline. Unlike
// net.TCPConn.ReadFrom, it does not move the file's offset, because all readers share the file.
func sendfile(to *net.TCPConn, file *os.File, position int64, n int) (sent int, err error) {
	socket, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	source, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	// Control keeps the file open while the function uses its descriptor.
	err = source.Control(func(from uintptr) {
		err := socket.Write(func(out uintptr) bool {
			sent, failed = sendOnce(int(out), int(from), position, n)
			return !errors.Is(failed, unix.EAGAIN)
		})
		failed = errors.Join(err, failed)
	})
	return sent, errors.Join(err, failed)
}

// sendOnce calls the system call sendfile once, and repeats it if a signal interrupts it. It
// returns EAGAIN if the socket has no space.
func sendOnce(out, from int, position int64, n int) (int, error) {
	for {
		offset := position
		sent, err := unix.Sendfile(out, from, &offset, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case sent == 0:
			return 0, io.ErrUnexpectedEOF // the file ends before the end of the chunk
		}
		return sent, nil
	}
}

// cork sets or clears TCP_CORK, which makes the kernel hold back packets that are not full. It
// ignores a failure, because the only effect is that more packets are sent.
func cork(conn *net.TCPConn, on bool) {
	value := 0
	if on {
		value = 1
	}
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP,
				unix.TCP_CORK, value)
		})
	}
}
