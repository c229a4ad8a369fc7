package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// connection is one client's connection, from accept to close. It handles requests one at a time,
// in the order of their arrival.
type connection struct {
	server   *Server // source of the options, metrics and budget
	socket   net.Conn
	stream   net.Conn       // socket, or the TLS connection over it
	cancel   func()         // function that ends the connection
	address  netip.Addr     // client's IP address, without zone; IPv4 is not mapped to IPv6
	routines sync.WaitGroup // goroutines for which serve waits

	// session is nil until the client is authenticated.
	session  atomic.Pointer[Session]
	exchange *saslExchange // the current authentication; only the reading goroutine uses it
	number   uint64        // copied into each Request

	// first bytes of the frame that is being read; only the reading goroutine uses it
	head [headBytes]byte
	// idle contains one token while no request is being handled. The reading goroutine must receive
	// the token before it handles the next frame.
	idle chan struct{}
	// nextRequest contains a token if a frame waits for the current request, until the current request
	// receives the token.
	nextRequest chan struct{}
	sender      sender // only the goroutine that handles a request uses it
	// throttle is the current request's Reply.Throttle. Only the goroutine that handles a request uses
	// it.
	throttle time.Duration
	// drainEnd returns the deadline for sending replies after ctx has ended. It always returns the
	// same time, so that a reply that is sent in many steps gets Options.Drain in total.
	drainEnd func() time.Time
}

func newConnection(s *Server, socket net.Conn) *connection {
	c := &connection{
		server: s, socket: socket, stream: socket, sender: newSender(socket),
		idle: make(chan struct{}, 1), address: addressOf(socket),
		nextRequest: make(chan struct{}, 1),
		drainEnd:    sync.OnceValue(func() time.Time { return time.Now().Add(s.opts.Drain) }),
		number:      s.accepted.Add(1),
	}
	c.idle <- struct{}{}
	return c
}

// serve handles requests until the peer closes the connection, an error occurs or ctx ends. It
// returns after all goroutines of the connection have exited.
//
// It calls established when the client is authenticated, or when the connection has failed before
// that.
func (c *connection) serve(ctx context.Context, established func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.server.track(c)
	defer c.server.untrack(c)
	// A deadline in the past ends a blocked read; a blocked write ends at drainEnd. readUntil and
	// writeUntil check ctx after they have set their deadlines, so they never override the deadlines
	// that are set here.
	unhook := context.AfterFunc(ctx, func() {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		_ = c.socket.SetWriteDeadline(c.drainEnd())
	})
	err := c.establish(ctx)
	established()
	if err != nil {
		c.logEnd(ctx, err)
		c.linger(ctx, err)
	} else {
		c.routines.Go(func() { c.work(ctx, cancel) })
		c.routines.Wait()
	}
	cancel()
	unhook()
	_ = c.stream.Close()
}

// work reads requests and replies to them, one after the other. When a request begins to wait, work
// starts a goroutine that continues with the next frame, and itself returns after it has replied to
// its request. So a single goroutine handles most requests without a context switch, but a closed
// connection is still detected while a request waits.
//
// An error cancels ctx, which ends the connection: waiting requests return, and reads fail because
// of the deadline in the past.
func (c *connection) work(ctx context.Context, cancel func()) {
	startNext := func() { c.routines.Go(func() { c.work(ctx, cancel) }) }
	for {
		f, err := c.readFrame(ctx, c.stream)
		if err != nil {
			c.logEnd(ctx, err)
			c.linger(ctx, err)
			cancel() // ends requests that still wait, because their client has disconnected
			return
		}
		request := &requestContext{Context: ctx, onWait: startNext}
		if err := c.dispatch(ctx, request, f); err != nil {
			c.logEnd(ctx, err)
			if !request.hasWaited() { // otherwise another goroutine reads from the socket
				c.linger(ctx, err)
			}
			cancel() // c.idle gets no token, so nothing is sent after a partial reply
			return
		}
		c.mute(request)
		c.idle <- struct{}{}
		if request.hasWaited() {
			return // the goroutine started by startNext reads the next frame
		}
	}
}

// mute waits until the throttle time of the last request has passed, or until the connection ends.
// c.idle gets its token only then, and the next request is not handled before, so even a client
// that ignores the throttle time is slowed down (KIP-219). As during a long poll, the first bytes
// of the next request are read in order to detect the end of the connection.
func (c *connection) mute(request *requestContext) {
	if c.throttle <= 0 {
		return
	}
	timer := time.NewTimer(c.throttle)
	defer timer.Stop()
	c.throttle = 0
	select {
	case <-timer.C:
	case <-request.Done():
	}
}

// requestContext is the context of one request. Handlers call Done before they wait. The first call
// starts another goroutine that reads from the socket, because only a read detects that the client
// has disconnected.
type requestContext struct {
	context.Context
	once   sync.Once
	onWait func() // called by the first Done, unless hasWaited has been called before
}

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} {
	r.once.Do(r.onWait)
	return r.Context.Done()
}

// hasWaited reports whether onWait has been called. After hasWaited, onWait is never called,
// because a handler may still use the context after its request has a reply.
func (r *requestContext) hasWaited() bool {
	waited := true
	r.once.Do(func() { waited = false })
	return waited
}

// awaitIdle waits until no request is being handled, and receives the token in c.idle. It notifies
// the current request through nextRequest. If ctx ends first, awaitIdle returns the error of ctx.
func (c *connection) awaitIdle(ctx context.Context) error {
	select {
	case <-c.idle:
		return nil
	default:
	}
	select {
	case c.nextRequest <- struct{}{}:
	default:
	}
	defer func() { // remove the notification if the current request has not received it
		select {
		case <-c.nextRequest:
		default:
		}
	}()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dispatch handles one request, either as a step of a re-authentication or with the handler.
func (c *connection) dispatch(ctx context.Context, request *requestContext, f frame) error {
	if c.exchange != nil || f.key == keySaslHandshake || !c.session.Load().Expires.IsZero() {
		if handled, err := c.reauthenticate(ctx, f); handled {
			f.release()
			return err
		}
	}
	return c.answer(ctx, request, f)
}

// answer handles one request and sends its reply. Every error closes the connection, because a part
// of the reply may already have been sent, and the client would interpret the next bytes as the
// rest of this reply. Both the request and the reply are always released, the reply only after it
// has been sent. request is the context for the handler; it is derived from ctx.
func (c *connection) answer(ctx, request context.Context, f frame) error {
	begin := time.Now()
	s := c.server
	req := &Request{
		Key: f.key, Version: f.version, CorrelationID: f.correlationID,
		Listener: s.opts.Name, Session: c.session.Load(), Remote: c.socket.RemoteAddr(),
		Address:    c.address,
		Connection: c.number, Release: f.release, NextRequest: c.nextRequest,
	}
	defer req.ReleaseBody()
	var err error
	req.ClientID, req.Body, err = parseHeaderRest(f.rest, s.opts.Handler.Flexible(f.key, f.version))
	if err != nil {
		return &rejectedError{rejectHeader, err.Error()}
	}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	reply, err := s.opts.Handler.Handle(request, req)
	if reply.Release != nil {
		defer reply.Release()
	}
	if err != nil {
		err = &refusedError{err}
	}
	api := s.opts.APIName(f.key)
	if reply.Error != "" {
		s.metrics.failed(api, reply.Error)
	}
	if err == nil && !reply.None {
		err = c.sender.send(f.correlationID, &reply, func() { c.writeUntil(ctx) })
	}
	s.metrics.observe(api, time.Since(begin))
	c.throttle = reply.Throttle
	return err
}

// lingerBytesMax is the maximum number of bytes that a connection receives while it is being
// closed.
const lingerBytesMax = 16 << 20

// refusedError wraps an error returned by the handler. The request gets no reply, and the
// connection is closed.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// linger closes the sending direction after an invalid request, and discards the bytes that the
// client still sends. If a socket with unread bytes were closed, TCP would reset the connection,
// and the client could lose the replies to its earlier requests. After a failed authentication,
// linger lets the client close the connection first, because kafka-python loses a reply that
// arrives together with the end of the connection, and then reports a lost connection. After other
// errors, linger returns immediately. No other goroutine may read from the socket.
func (c *connection) linger(ctx context.Context, err error) {
	socket, half := c.stream.(interface{ CloseWrite() error })
	if !half || !isInvalid(err) {
		return
	}
	var failed *authenticationError
	if errors.As(err, &failed) && failed.mechanism != MechanismTLS && c.discard(ctx) == nil {
		return // the client has closed the connection
	}
	_ = socket.CloseWrite()
	_ = c.discard(ctx)
}

// discard receives bytes until the client closes the connection, but no longer than Options.Linger.
func (c *connection) discard(ctx context.Context) error {
	c.readUntil(ctx, c.server.opts.Linger)
	n, err := io.Copy(io.Discard, io.LimitReader(c.stream, lingerBytesMax))
	if err == nil && n == lingerBytesMax {
		return errors.New("the client sends too much")
	}
	return err
}

// isInvalid reports whether err was caused by an invalid request. A request that arrives too slowly
// does not count as invalid.
func isInvalid(err error) bool {
	var refused *refusedError
	var rejected *rejectedError
	var failed *authenticationError
	return errors.As(err, &refused) || errors.As(err, &failed) ||
		errors.As(err, &rejected) && rejected.reason != rejectSlow
}

// readUntil sets the deadline of the next read to limit from now. It checks ctx after it has set
// the deadline. If ctx has ended before the check, readUntil sets a deadline in the past; if ctx
// ends later, the AfterFunc in serve does so. In the opposite order, the AfterFunc could run
// between the check and the setting of the deadline, and a stopping server would wait for limit.
func (c *connection) readUntil(ctx context.Context, limit time.Duration) {
	_ = c.socket.SetReadDeadline(time.Now().Add(limit))
	if ctx.Err() != nil {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

// writeUntil sets the deadline of the next write, and checks ctx afterwards, for the same reason as
// readUntil. Until ctx ends, each step of a large reply may take Options.Stall. After that, all
// steps together may take Options.Drain, because a slow client could otherwise delay the return of
// Serve indefinitely.
func (c *connection) writeUntil(ctx context.Context) {
	_ = c.socket.SetWriteDeadline(time.Now().Add(c.server.opts.Stall))
	if ctx.Err() != nil {
		_ = c.socket.SetWriteDeadline(c.drainEnd())
	}
}

// logEnd logs the reason why a connection is closed, unless the peer has closed it or the server is
// stopping.
func (c *connection) logEnd(ctx context.Context, err error) {
	logger := c.server.opts.Logger.With("listener", c.server.opts.Name, "remote",
		c.socket.RemoteAddr())
	var rejected *rejectedError
	var failed *authenticationError
	switch {
	case errors.As(err, &failed):
		c.logFailure(failed)
	case errors.As(err, &rejected) && rejected.reason == rejectNoKeys:
		c.logNoKeys()
	case errors.As(err, &rejected):
		c.server.metrics.rejected(rejected.reason)
		logger.Warn("connection closed: invalid request", "reason", rejected.reason, "detail",
			rejected.detail)
	case errors.Is(err, io.EOF), ctx.Err() != nil, isReset(err):
	case errors.Is(err, os.ErrDeadlineExceeded):
		logger.Debug("connection closed: client sent or read too little in time")
	default:
		logger.Info("connection failed", "error", err)
	}
}

// logNoKeys counts a token that cannot be verified yet. It logs at most one such token per minute,
// because clients retry until the keys are known.
func (c *connection) logNoKeys() {
	s := c.server
	s.metrics.rejected(rejectNoKeys)
	s.noKeys.Lock()
	folded, logs := s.noKeys.fold.Add(struct{}{}, time.Now())
	s.noKeys.Unlock()
	if logs {
		s.opts.Logger.Warn("connection closed: its token cannot be verified until the keys of the "+
			"issuer are read", "listener", s.opts.Name, "remote", c.socket.RemoteAddr(),
			"closedAndNotLogged", folded)
	}
}

// logFailure counts a failed authentication and logs it, unless the user has already failed often.
func (c *connection) logFailure(failed *authenticationError) {
	s := c.server
	s.metrics.authenticated(failed.mechanism, false)
	if failed.blocked {
		s.metrics.rejected(rejectFailures)
		return
	}
	if !s.failures.add(c.address, failed.user, failed.known, s.opts.Security.FailuresMax,
		time.Now()) {
		return
	}
	args := []any{"listener", s.opts.Name, "remote", c.socket.RemoteAddr(), "mechanism",
		failed.mechanism, "user", logged(failed.user), "reason", failed.reason}
	if failed.hint != "" {
		args = append(args, "hint", failed.hint)
	}
	s.opts.Logger.Warn("authentication failed", args...)
}

// logged returns the beginning of a text from a client, because the text can be long.
func logged(text string) string {
	const bytesMax = 128
	return strings.ToValidUTF8(text[:min(len(text), bytesMax)], "")
}
