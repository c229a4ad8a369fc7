package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

const (
	// authFrameMax is the maximum frame size for a client that has not authenticated, in bytes
	// (CVE-2022-34917). A projected Kubernetes token has about 1.5 KiB.
	authFrameMax = 64 << 10
	// authFramesMax is the maximum number of frames that a client may send to authenticate. SCRAM
	// needs 5.
	authFramesMax = 20
	// reauthInterval is the minimum time between two authentications on a connection (KIP-368).
	reauthInterval = time.Second
)

// establish performs the TLS handshake and the authentication of a new connection; no request is
// read before it returns. It buffers at most authFrameMax bytes.
func (c *connection) establish(ctx context.Context) error {
	security := &c.server.opts.Security
	if !security.establishes() {
		c.begin(anonymous)
		return nil
	}
	begun := time.Now()
	end := begun.Add(security.AuthenticationTimeout)
	if security.TLS != nil {
		handshake := begun.Add(security.HandshakeTimeout)
		if end.Before(handshake) {
			handshake = end
		}
		var err error
		if security.Plain != nil && security.Plain() {
			err = c.optionalTLS(ctx, handshake)
		} else {
			err = c.handshake(ctx, c.socket, handshake)
		}
		if err != nil {
			return err
		}
	}
	if len(security.Mechanisms) > 0 {
		c.deadline(ctx, end)
		if err := c.authenticate(ctx); err != nil {
			return err
		}
	}
	c.deadline(ctx, time.Time{})
	if c.session.Load() == nil {
		c.begin(anonymous)
	}
	return nil
}

// deadline sets the socket's deadlines, unless ctx has ended (see readUntil).
func (c *connection) deadline(ctx context.Context, moment time.Time) {
	_ = c.socket.SetDeadline(moment)
	if ctx.Err() != nil {
		_ = c.socket.SetDeadline(time.Unix(1, 0))
	}
}

// begin sets the connection's session.
func (c *connection) begin(s *Session) {
	if s != anonymous && s.begun.IsZero() {
		s.begun = time.Now()
	}
	c.session.Store(s)
}

// authenticate reads frames until the client is authenticated.
func (c *connection) authenticate(ctx context.Context) error {
	c.exchange = &saslExchange{security: &c.server.opts.Security, blocked: c.blocked}
	for range authFramesMax {
		content, err := c.readAuthFrame()
		if err != nil {
			return err
		}
		err = c.authFrame(ctx, content)
		putBuffer(content)
		if err != nil {
			return err
		}
		if c.session.Load() != nil {
			c.exchange = nil
			return nil
		}
	}
	return &authenticationError{reason: "too many requests before authentication"}
}

// readAuthFrame reads a frame of at most authFrameMax bytes. The caller must return the buffer to
// its pool.
func (c *connection) readAuthFrame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.stream, size[:]); err != nil {
		return nil, c.authReadError(err)
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 0 || n > authFrameMax {
		if n < prefixBytes || n > frameBytesMax {
			return nil, rejectSize(size, n)
		}
		return nil, &rejectedError{rejectTooLarge, fmt.Sprintf(
			"frame of %d bytes before authentication: at most %d are allowed", n, authFrameMax)}
	}
	buf := getBuffer(n)
	if _, err := io.ReadFull(c.stream, buf); err != nil {
		putBuffer(buf)
		return nil, c.authReadError(unexpected(err))
	}
	return buf, nil
}

// authReadError converts a timeout to a rejectedError, which contains the reason.
func (c *connection) authReadError(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &rejectedError{rejectUnauthenticated, fmt.Sprintf(
			"client has not authenticated within %v", c.server.opts.Security.AuthenticationTimeout)}
	}
	return err
}

// authFrame handles one frame from a client that has not authenticated.
func (c *connection) authFrame(ctx context.Context, content []byte) error {
	if c.exchange.bare {
		return c.bareMessage(ctx, content)
	}
	if len(content) < prefixBytes {
		return &rejectedError{rejectHeader, errBadHeader.Error()}
	}
	f := frame{prefix: parsePrefix([prefixBytes]byte(content)), rest: content[prefixBytes:],
		release: func() {}}
	switch {
	case f.key == keyAPIVersions && c.exchange.mechanism == "":
		return c.answer(ctx, ctx, f)
	case f.key == keySaslHandshake || f.key == keySaslAuthenticate:
		return c.saslRequest(ctx, f)
	}
	return &rejectedError{rejectUnauthenticated, fmt.Sprintf("request of %s before authentication: "+
		"set the security protocol of the client to SASL_SSL or SASL_PLAINTEXT",
		c.server.opts.APIName(f.key))}
}

// saslRequest handles a SaslHandshake or SaslAuthenticate request.
func (c *connection) saslRequest(ctx context.Context, f frame) error {
	flexible := f.key == keySaslAuthenticate && f.version >= 2
	_, body, err := parseHeaderRest(f.rest, flexible)
	if err != nil {
		return &rejectedError{rejectHeader, err.Error()}
	}
	var a answered
	if f.key == keySaslHandshake {
		a = c.exchange.handshake(f.version, body)
	} else {
		a = c.exchange.authenticate(time.Now(), f.version, body)
	}
	if a.err != nil {
		pause(ctx, c.server.opts.Security.FailureDelay)
	}
	if a.body != nil {
		reply := Reply{Flexible: a.flexible, Chunks: []Chunk{{Bytes: a.body}}}
		if err := c.sender.send(f.correlationID, &reply, func() {}); err != nil {
			return errors.Join(a.err, err)
		}
	}
	if a.session != nil {
		c.authenticated(a.session)
	}
	return a.err
}

// blocked reports whether the user is blocked at the connection's address.
func (c *connection) blocked(user string) bool {
	return c.server.failures.blocked(c.address, user, time.Now())
}

// authenticated starts a session after the client has authenticated with SASL.
func (c *connection) authenticated(session *Session) {
	c.begin(session)
	c.server.failures.succeeded(c.address, session.Principal.Name)
	c.server.metrics.authenticated(session.Mechanism, true)
}

// bareMessage handles a message without a request header. Such messages follow a SaslHandshake of
// version 0. After a failure there is no reply, and the connection is closed, as in Kafka.
func (c *connection) bareMessage(ctx context.Context, message []byte) error {
	reply, session, err := c.exchange.step(time.Now(), message)
	if err != nil {
		pause(ctx, c.server.opts.Security.FailureDelay)
		return err
	}
	out := append(kbin.AppendInt32(nil, int32(len(reply))), reply...)
	if _, err := c.stream.Write(out); err != nil {
		return err
	}
	if session != nil {
		c.authenticated(session)
	}
	return nil
}

// reauthenticates reports whether requests of an API can belong to a re-authentication.
func (c *connection) reauthenticates(key int16) bool {
	return (key == keySaslHandshake || key == keySaslAuthenticate) &&
		len(c.server.opts.Security.Mechanisms) > 0
}

// reauthenticate handles SaslHandshake and SaslAuthenticate on an authenticated connection. handled
// is false if the request does not belong to a re-authentication; the caller then passes it to the
// handler, which replies with ILLEGAL_SASL_STATE.
func (c *connection) reauthenticate(ctx context.Context, f frame) (handled bool, err error) {
	session := c.session.Load()
	now := time.Now()
	begins := f.key == keySaslHandshake && f.version == 1 && c.exchange == nil &&
		c.reauthenticates(f.key) && now.Sub(session.begun) >= reauthInterval
	if begins {
		c.exchange = &saslExchange{security: &c.server.opts.Security, previous: session}
	}
	if c.exchange != nil {
		if f.key != keySaslHandshake && f.key != keySaslAuthenticate {
			return true, &authenticationError{mechanism: c.exchange.mechanism,
				user: session.Principal.Name, reason: "other request during re-authentication"}
		}
		c.writeUntil(ctx)
		err := c.saslRequest(ctx, f)
		if c.session.Load() != session {
			c.exchange = nil
		}
		return true, err
	}
	if !session.Expires.IsZero() && !now.Before(session.Expires) {
		return true, &rejectedError{rejectExpired, "request after the end of the session: the " +
			"client has not authenticated again"}
	}
	return false, nil
}
