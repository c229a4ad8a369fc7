//go:build !linux

package wire

import (
	"errors"
	"net"
	"os"
)

// sendfileWorks is false on platforms whose sendfile has another signature: files are read and
// written there.
const sendfileWorks = false

func sendfile(*net.TCPConn, *os.File, int64, int) (int, error) { return 0, errors.ErrUnsupported }

func cork(*net.TCPConn, bool) {}
