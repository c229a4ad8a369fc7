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

// connection is one client's connection, from accept to close.
type connection struct {
	server   *Server // for its options, metrics and budget
	socket   net.Conn
	routines sync.WaitGroup // of serve

	// Of each request: where the connection was accepted, and whose it is.
	listener  string
	principal Principal

	head [headBytes]byte // of the frame being read; of who reads
	// holds one while no request is in hand: who reads takes it for the frame that is to be next
	turn   chan struct{}
	behind chan struct{} // holds one while a frame waits for the request in hand
	sender sender        // of who has the turn
	// drainEnd is when a reply must have left once ctx has ended: one time for all of it, however
	// many steps it takes.
	drainEnd func() time.Time
}

func newConnection(s *Server, socket net.Conn) *connection {
	c := &connection{
		server: s, socket: socket, sender: newSender(socket), turn: make(chan struct{}, 1),
		behind:   make(chan struct{}, 1),
		drainEnd: sync.OnceValue(func() time.Time { return time.Now().Add(s.opts.Drain) }),
		listener: s.opts.Name, principal: Anonymous,
	}
	c.turn <- struct{}{}
	return c
}

// serve answers the connection's requests until the peer goes, something fails, or ctx ends, and
// joins all that it started.
func (c *connection) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	// Deadlines wake what waits in the socket; readUntil and writeUntil look at ctx after setting
	// theirs, so none comes later.
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

// work reads requests and answers them, one after the other. When one begins to wait, another
// goroutine is started to do the same from the next frame on, one frame ahead at most; then this
// one ends with its request. So most requests are read and answered by one goroutine, nobody has to
// be woken for that, and yet a peer that goes is noticed by all that wait.
//
// Whoever fails ends the connection, by cancel: who waits for an answer gives up, and who reads
// finds the deadline passed.
func (c *connection) work(ctx context.Context, cancel func()) {
	handOn := func() { c.routines.Go(func() { c.work(ctx, cancel) }) }
	for {
		f, err := c.readFrame(ctx, c.socket)
		if err != nil {
			c.logEnd(ctx, err)
			cancel() // the peer is gone, or never to be heard again: waiting for it ends
			return
		}
		request := &requestContext{Context: ctx, waits: handOn}
		if err := c.answer(ctx, request, f); err != nil {
			c.logEnd(ctx, err)
			cancel() // and the turn is kept: nothing may follow half a reply
			return
		}
		c.turn <- struct{}{}
		if request.hasWaited() {
			return // somebody else reads
		}
	}
}

// requestContext is what a handler gets. Who is about to wait asks for Done: that is when somebody
// has to look after the socket in its place, and not before.
type requestContext struct {
	context.Context
	once  sync.Once
	waits func() // called once at most, by the first Done before hasWaited
}

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} {
	r.once.Do(r.waits)
	return r.Context.Done()
}

// hasWaited tells whether waits was called. From then on it will not be: a context may be held for
// longer than its request.
func (r *requestContext) hasWaited() bool {
	waited := true
	r.once.Do(func() { waited = false })
	return waited
}

// takeTurn waits until no request is in hand, and lets the one that is know. Its error is ctx's.
func (c *connection) takeTurn(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	default:
	}
	select {
	case c.behind <- struct{}{}:
	default:
	}
	defer func() { // unless the one in hand took it
		select {
		case <-c.behind:
		default:
		}
	}()
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer handles one request and sends its reply. Any error closes the connection: a part of the
// reply may have left already, and what followed it would be read as its rest. Request and reply
// are released in every case, and the reply only after it was sent. The handler gets a context of
// its own, of ctx.
func (c *connection) answer(ctx, request context.Context, f frame) error {
	begin := time.Now()
	s := c.server
	req := &Request{
		Key: f.key, Version: f.version, CorrelationID: f.correlationID,
		Listener: c.listener, Principal: c.principal, Remote: c.socket.RemoteAddr(),
		Release: f.release, NextRequest: c.behind,
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
	s.metrics.took(api, time.Since(begin))
	return err
}

// readUntil bounds the next read. The deadline is set first and ctx looked at after, so the end of
// ctx is never overwritten: if ctx ended before the look, the past is set here; if it ends later,
// the hook of serve sets it, after ours. The other order would leave a gap in which the hook comes
// first and a stopping server then waits for limit.
func (c *connection) readUntil(ctx context.Context, limit time.Duration) {
	_ = c.socket.SetReadDeadline(time.Now().Add(limit))
	if ctx.Err() != nil {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

// writeUntil bounds the next write, in the order that readUntil explains. Each step of a large
// reply has the whole limit again, until ctx ends: then all of it has Drain, or a slow client could
// hold up the stop for as long as it liked.
func (c *connection) writeUntil(ctx context.Context) {
	_ = c.socket.SetWriteDeadline(time.Now().Add(c.server.opts.Stall))
	if ctx.Err() != nil {
		_ = c.socket.SetWriteDeadline(c.drainEnd())
	}
}

// logEnd says why a connection is closed, unless that is everyday life: the peer went, or we stop.
func (c *connection) logEnd(ctx context.Context, err error) {
	logger := c.server.opts.Logger.With("listener", c.server.opts.Name, "remote",
		c.socket.RemoteAddr())
	var rejected *rejectedError
	switch {
	case errors.As(err, &rejected):
		c.server.metrics.rejected(rejected.reason)
		logger.Warn("connection closed: not a request we take", "reason", rejected.reason, "detail",
			rejected.detail)
	case errors.Is(err, io.EOF), ctx.Err() != nil, isReset(err):
	case errors.Is(err, os.ErrDeadlineExceeded):
		logger.Debug("connection closed: idle or stalled")
	default:
		logger.Info("connection closed", "error", err)
	}
}
