package wire

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfileWorks is a constant, so that each system compiles its own way only (docs/adr/0037).
const sendfileWorks = true

// sendfile sends at most n bytes of file from position on, waiting (until the write deadline) for
// room in the socket, and returns how many went. The position is passed explicitly, so the file's
// own offset, shared by all who read it, never moves; this is why net.TCPConn.ReadFrom would not
// do.
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
	// Control holds the file open while its descriptor is in use.
	err = source.Control(func(from uintptr) {
		err := socket.Write(func(out uintptr) bool {
			sent, failed = sendOnce(int(out), int(from), position, n)
			return !errors.Is(failed, unix.EAGAIN)
		})
		failed = errors.Join(err, failed)
	})
	return sent, errors.Join(err, failed)
}

// sendOnce calls sendfile until a signal does not interrupt it. EAGAIN goes back to the caller, for
// the poller to wait for room.
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
			return 0, io.ErrUnexpectedEOF // the file is shorter than the handler said
		}
		return sent, nil
	}
}

// cork holds back partial packets; uncorking sends them. It is a hint: failure only costs packets.
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
