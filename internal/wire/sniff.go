package wire

import (
	"fmt"
	"strings"
)

// httpMethods are the first four bytes of HTTP requests. As the size of a frame, "GET " is 1.1 GB.
const httpMethods = "GET POSTPUT HEADDELEOPTIPATCCONNTRACPRI "

// detectProtocol returns the reject reason of the protocol that the first bytes of a connection
// belong to: HTTP, TLS, or "" for neither.
func detectProtocol(start [4]byte) string {
	if i := strings.Index(httpMethods, string(start[:])); i >= 0 && i%4 == 0 {
		return rejectHTTP
	}
	// A TLS record: type handshake, version 3.x.
	if start[0] == 0x16 && start[1] == 0x03 && start[2] <= 0x04 {
		return rejectTLS
	}
	return ""
}

// rejectSize returns the error for an invalid frame size, and names the protocol that the client
// seems to speak.
func rejectSize(start [4]byte, size int) error {
	switch detectProtocol(start) {
	case rejectHTTP:
		return &rejectedError{rejectHTTP,
			"this looks like HTTP; the port speaks the Kafka protocol"}
	case rejectTLS:
		return &rejectedError{rejectTLS,
			"this looks like a TLS handshake; the port speaks the Kafka protocol without TLS"}
	}
	return &rejectedError{rejectTooLarge,
		fmt.Sprintf("frame size %d is not in [%d, %d]", size, prefixBytes, frameBytesMax)}
}
