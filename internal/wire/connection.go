package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// connection is the connection of one client, from accept to close. It answers one request at a
// time, in order.
type connection struct {
	server   *Server // provides the options, metrics and budget
	socket   net.Conn
	routines sync.WaitGroup // goroutines that serve joins

	// Copied into each request.
	listener  string
	principal Principal

	head [headBytes]byte // head of the frame being read; used by the reading goroutine alone
	// idle holds one token while no request is being handled. The reading goroutine takes it for
	// the next frame.
	idle chan struct{}
	// nextRequest holds one token while a frame waits for the current request.
	nextRequest chan struct{}
	sender      sender // used by the goroutine that handles a request
	// drainEnd returns the deadline of all replies once ctx has ended. A reply has one deadline,
	// however many steps sending the reply takes.
	drainEnd func() time.Time
}

func newConnection(s *Server, socket net.Conn) *connection {
	c := &connection{
		server: s, socket: socket, sender: newSender(socket), idle: make(chan struct{}, 1),
		nextRequest: make(chan struct{}, 1),
		drainEnd:    sync.OnceValue(func() time.Time { return time.Now().Add(s.opts.Drain) }),
		listener:    s.opts.Name, principal: Anonymous,
	}
	c.idle <- struct{}{}
	return c
}

// serve answers requests until the peer closes the connection, an error occurs or ctx ends, and
// joins every goroutine that it started.
func (c *connection) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	// A past deadline wakes a blocked read or write. readUntil and writeUntil check ctx after they
	// set theirs, so they never overwrite it.
	unhook := context.AfterFunc(ctx, func() {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		_ = c.socket.SetWriteDeadline(c.drainEnd())
	})
	c.routines.Go(func() { c.work(ctx, cancel) })
	c.routines.Wait()
	cancel()
	unhook()
	_ = c.socket.Close()
}

// work reads requests and answers them, one after the other. When a request begins to wait, work
// starts a goroutine that continues with the next frame, and returns once its own request is
// answered. So one goroutine reads and answers most requests without a context switch, and yet a
// closed connection is noticed while a request waits.
//
// An error cancels ctx, which ends the connection: waiting requests return, and reads fail with the
// past deadline.
func (c *connection) work(ctx context.Context, cancel func()) {
	startNext := func() { c.routines.Go(func() { c.work(ctx, cancel) }) }
	for {
		f, err := c.readFrame(ctx, c.socket)
		if err != nil {
			c.logEnd(ctx, err)
			cancel() // requests that wait have no client any more
			return
		}
		request := &requestContext{Context: ctx, onWait: startNext}
		if err := c.answer(ctx, request, f); err != nil {
			c.logEnd(ctx, err)
			cancel() // the token stays taken: nothing may follow half a reply
			return
		}
		c.idle <- struct{}{}
		if request.hasWaited() {
			return // another goroutine reads now
		}
	}
}

// requestContext is the context of one request. A handler that is about to wait calls Done; only
// then must another goroutine watch the socket.
type requestContext struct {
	context.Context
	once   sync.Once
	onWait func() // called at most once, by the first Done before hasWaited
}

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} {
	r.once.Do(r.onWait)
	return r.Context.Done()
}

// hasWaited reports whether onWait was called. Afterwards onWait is never called: a handler may
// keep the context for longer than its request.
func (r *requestContext) hasWaited() bool {
	waited := true
	r.once.Do(func() { waited = false })
	return waited
}

// awaitIdle waits until no request is being handled, and signals the current one through
// nextRequest. It returns ctx's error when ctx ends first.
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
	defer func() { // unless the current request received it
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

// answer handles one request and sends its reply. Every error closes the connection: part of the
// reply may be sent already, and the client would read the next bytes as the rest of this reply.
// Request and reply are released in every case, the reply only after it was sent. request is the
// handler's context, derived from ctx.
func (c *connection) answer(ctx, request context.Context, f frame) error {
	begin := time.Now()
	s := c.server
	req := &Request{
		Key: f.key, Version: f.version, CorrelationID: f.correlationID,
		Listener: c.listener, Principal: c.principal, Remote: c.socket.RemoteAddr(),
		Release: f.release, NextRequest: c.nextRequest,
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
	api := s.opts.APIName(f.key)
	if reply.Error != "" {
		s.metrics.failed(api, reply.Error)
	}
	if err == nil && !reply.None {
		err = c.sender.send(f.correlationID, &reply, func() { c.writeUntil(ctx) })
	}
	s.metrics.observe(api, time.Since(begin))
	return err
}

// readUntil sets the deadline of the next read. It sets the deadline first and checks ctx
// afterwards. If ctx ended before the check, the past deadline is set here; if it ends later, the
// AfterFunc of serve sets it. In the other order AfterFunc could run in between, and a stopping
// server would wait for limit.
func (c *connection) readUntil(ctx context.Context, limit time.Duration) {
	_ = c.socket.SetReadDeadline(time.Now().Add(limit))
	if ctx.Err() != nil {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

// writeUntil sets the deadline of the next write, in the order that readUntil explains. Each step
// of a large reply has the whole limit until ctx ends. From then on all of the reply has
// Options.Drain, or a slow client could delay the stop without bound.
func (c *connection) writeUntil(ctx context.Context) {
	_ = c.socket.SetWriteDeadline(time.Now().Add(c.server.opts.Stall))
	if ctx.Err() != nil {
		_ = c.socket.SetWriteDeadline(c.drainEnd())
	}
}

// logEnd logs why a connection is closed, unless the peer closed it or the server stops.
func (c *connection) logEnd(ctx context.Context, err error) {
	logger := c.server.opts.Logger.With("listener", c.server.opts.Name, "remote",
		c.socket.RemoteAddr())
	var rejected *rejectedError
	switch {
	case errors.As(err, &rejected):
		c.server.metrics.rejected(rejected.reason)
		logger.Warn("connection closed: invalid request", "reason", rejected.reason, "detail",
			rejected.detail)
	case errors.Is(err, io.EOF), ctx.Err() != nil, isReset(err):
	case errors.Is(err, os.ErrDeadlineExceeded):
		logger.Debug("connection closed: idle or stalled")
	default:
		logger.Info("connection failed", "error", err)
	}
}
