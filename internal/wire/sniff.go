package wire

import (
	"fmt"
	"strings"
)

// httpMethods contains the first four bytes of every kind of HTTP request. Interpreted as the size
// of a frame, "GET " is 1.1 GB, which is above the limit.
const httpMethods = "GET POSTPUT HEADDELEOPTIPATCCONNTRACPRI "

// detectProtocol returns rejectHTTP or rejectTLS if a connection that starts with these bytes uses
// HTTP or TLS. Otherwise it returns "".
func detectProtocol(start [4]byte) string {
	if i := strings.Index(httpMethods, string(start[:])); i >= 0 && i%4 == 0 {
		return rejectHTTP
	}
	// the beginning of a TLS record: type handshake, version 3.x
	if start[0] == 0x16 && start[1] == 0x03 && start[2] <= 0x04 {
		return rejectTLS
	}
	return ""
}

// rejectSize returns the error for an invalid frame size. If the client uses HTTP or TLS, the error
// says so.
func rejectSize(start [4]byte, size int) error {
	switch detectProtocol(start) {
	case rejectHTTP:
		return &rejectedError{rejectHTTP,
			"this looks like HTTP; the port expects the Kafka protocol"}
	case rejectTLS:
		return &rejectedError{rejectTLS,
			"this looks like a TLS handshake; the port expects the Kafka protocol without TLS"}
	}
	return &rejectedError{rejectTooLarge,
		fmt.Sprintf("frame size %d is not in [%d, %d]", size, prefixBytes, frameBytesMax)}
}
