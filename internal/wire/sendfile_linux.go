package wire

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfileWorks is a constant, so that each platform compiles only its own path (ADR 0037).
const sendfileWorks = true

// sendfile sends at most n bytes of file from position, waits (until the write deadline) for space
// in the socket, and returns how many bytes it sent. The position is passed explicitly, so the
// offset of the file, which all readers share, never moves; net.TCPConn.ReadFrom would move it.
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
	// Control keeps the file open while its descriptor is in use.
	err = source.Control(func(from uintptr) {
		err := socket.Write(func(out uintptr) bool {
			sent, failed = sendOnce(int(out), int(from), position, n)
			return !errors.Is(failed, unix.EAGAIN)
		})
		failed = errors.Join(err, failed)
	})
	return sent, errors.Join(err, failed)
}

// sendOnce calls sendfile until no signal interrupts it. The caller handles EAGAIN by waiting for
// space.
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
			return 0, io.ErrUnexpectedEOF // the file ends before the chunk
		}
		return sent, nil
	}
}

// cork holds back partial packets; uncorking sends them. A failure is ignored: it costs packets
// only.
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
