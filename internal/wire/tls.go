package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// handshakeGate limits the number of concurrent TLS handshakes on all listeners of the process to
// half the number of processors. Otherwise 1,000 clients that reconnect at once would delay the
// requests of all other clients.
var handshakeGate = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// gatedConn is the socket below a TLS connection. During the handshake, the connection holds a
// place in handshakeGate, except while it waits for the peer, so that a slow peer does not delay
// other handshakes.
type gatedConn struct {
	net.Conn
	passed atomic.Bool // set when the handshake has ended
}

// Read implements net.Conn.
func (g *gatedConn) Read(b []byte) (int, error) {
	if g.passed.Load() {
		return g.Conn.Read(b)
	}
	<-handshakeGate
	n, err := g.Conn.Read(b)
	handshakeGate <- struct{}{}
	return n, err
}

// Write implements net.Conn.
func (g *gatedConn) Write(b []byte) (int, error) {
	if g.passed.Load() {
		return g.Conn.Write(b)
	}
	<-handshakeGate
	n, err := g.Conn.Write(b)
	handshakeGate <- struct{}{}
	return n, err
}

// handshake performs the TLS handshake, and replaces c.stream and c.sender. It sets the session if
// the client has authenticated with a certificate.
func (c *connection) handshake(ctx context.Context, socket net.Conn, deadline time.Time) error {
	security := &c.server.opts.Security
	gate := &gatedConn{Conn: socket}
	stream := tls.Server(gate, security.TLS())
	c.deadline(ctx, deadline)
	handshakeGate <- struct{}{}
	err := stream.HandshakeContext(ctx)
	<-handshakeGate
	gate.passed.Store(true)
	if err != nil {
		return c.handshakeError(err)
	}
	c.stream, c.sender = stream, newSender(stream)
	if security.Certificate == nil {
		return nil
	}
	state := stream.ConnectionState()
	session, err := security.Certificate(&state)
	if err != nil {
		return &authenticationError{mechanism: MechanismTLS, reason: err.Error()}
	}
	c.begin(session)
	c.server.metrics.authenticated(MechanismTLS, true)
	return nil
}

// handshakeError returns the error to log for a failed handshake. A missing or invalid client
// certificate counts as a failed authentication.
func (c *connection) handshakeError(err error) error {
	var record tls.RecordHeaderError
	var invalid *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record):
		return plainOnTLS(record.RecordHeader)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return &rejectedError{rejectHandshake, "TLS handshake took too long"}
	case errors.Is(err, io.EOF), isReset(err):
		return io.EOF
	case errors.As(err, &invalid):
		return &authenticationError{mechanism: MechanismTLS,
			reason: "certificate of the client is invalid: " + invalid.Err.Error()}
	case c.server.opts.Security.Certificate != nil &&
		err.Error() == "tls: client didn't provide a certificate":
		return &authenticationError{mechanism: MechanismTLS, reason: "client sent no certificate"}
	}
	return &rejectedError{rejectHandshake, fmt.Sprintf("TLS handshake failed: %v", err)}
}

// plainOnTLS returns the error for a connection to a TLS listener that does not start with TLS.
func plainOnTLS(start [5]byte) error {
	if detectProtocol([4]byte(start[:4])) == rejectHTTP {
		return &rejectedError{rejectHTTP,
			"this looks like HTTP; the port expects the Kafka protocol with TLS"}
	}
	if start[0] == 0 {
		return &rejectedError{rejectPlain,
			"this looks like the Kafka protocol without TLS; the port expects TLS: set the " +
				"security protocol of the client to SSL or SASL_SSL"}
	}
	return &rejectedError{rejectPlain, "the first bytes are no TLS record; the port expects TLS"}
}
