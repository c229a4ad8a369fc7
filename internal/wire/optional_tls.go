package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// tlsRecordHandshake is the first byte of a TLS connection. A Kafka frame begins with its size,
// whose first byte is 0 for every accepted size below 16 MiB.
const tlsRecordHandshake = 0x16

// startedConn is a connection whose first bytes have already been read.
type startedConn struct {
	net.Conn
	start []byte
}

// Read implements net.Conn.
func (s *startedConn) Read(b []byte) (int, error) {
	if len(s.start) > 0 {
		n := copy(b, s.start)
		s.start = s.start[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

// optionalTLS performs the TLS handshake, unless the client sends its first request without TLS. In
// that case the client's session is anonymous.
func (c *connection) optionalTLS(ctx context.Context, deadline time.Time) error {
	c.deadline(ctx, deadline)
	start := make([]byte, 1)
	if _, err := io.ReadFull(c.socket, start); err != nil {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return &rejectedError{rejectHandshake, "client has sent nothing"}
		}
		return err
	}
	started := &startedConn{Conn: c.socket, start: start}
	if start[0] == tlsRecordHandshake {
		return c.handshake(ctx, started, deadline)
	}
	c.stream = started
	return nil
}
