//go:build !linux

package wire

import (
	"errors"
	"net"
	"os"
)

// sendfileWorks is false on platforms other than Linux, because their sendfile has a different
// signature. On these platforms, files are read and written instead.
const sendfileWorks = false

func sendfile(*net.TCPConn, *os.File, int64, int) (int, error) { return 0, errors.ErrUnsupported }

func cork(*net.TCPConn, bool) {}
