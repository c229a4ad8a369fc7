package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// Request is one request frame, with its header decoded.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" if the client has sent none
	// Body is valid until ReleaseBody is called or the reply has been sent. Handlers must copy the
	// parts that they need for longer.
	Body []byte
	// Listener is the Options.Name of the server that accepted the connection.
	Listener string
	// Session is the client's authenticated identity; nil: the client is anonymous.
	Session *Session
	Remote  net.Addr
	Address netip.Addr // IP address of Remote, without zone; IPv4 is not mapped to IPv6
	// Connection is the number of the client's connection, at least 1. The server numbers connections
	// in the order in which it accepts them.
	Connection uint64
	// Release releases the memory of Body and its bytes of a budget. It is nil if there is nothing to
	// release. Handlers call ReleaseBody instead.
	Release func()
	// NextRequest delivers one value when the client has sent its next request, which then waits for
	// the reply to this request.
	NextRequest <-chan struct{}
}

// Principal returns the client's identity. Without authentication, it is Anonymous.
func (r *Request) Principal() Principal {
	if r.Session == nil {
		return Anonymous
	}
	return r.Session.Principal
}

// ReleaseBody releases Body before the request has a reply. A handler should call it before it
// waits if it no longer needs Body. Otherwise waiting requests could use up the budget, and no
// other request could be read. After the call, the reply must not alias Body.
func (r *Request) ReleaseBody() {
	release := r.Release
	r.Body, r.Release = nil, nil
	if release != nil {
		release()
	}
}

// Chunk is a part of a reply: bytes, or a range of a file that is sent without being copied.
type Chunk struct {
	Bytes    []byte
	File     vfs.File // the chunk's file, of which Length bytes from Position are sent; or nil
	Position int64
	Length   int
}

// Reply is a response's body. It contains the bytes after the correlation id and, if the version is
// flexible, after the header's tags.
type Reply struct {
	Flexible bool // true if the response header contains tags; false for ApiVersions
	Chunks   []Chunk
	Release  func() // called after the reply has been sent or could not be sent; may be nil
	None     bool   // true if the request has no response (acks=0)
	Error    string // name of the first Kafka error, for request_errors_total; empty: none
	// Throttle is the time after sending the reply in which no other request on the connection is
	// handled (KIP-219).
	Throttle time.Duration
}

// Handler handles requests. If it returns an error, the connection is closed. It receives the
// requests on one connection one after the other.
type Handler interface {
	// FrameMax returns the maximum frame size for an API key, in bytes. It returns 0 if the key is not
	// supported; the connection is then closed, as in Kafka.
	FrameMax(key int16) int
	// Flexible reports whether a request's header contains tagged fields (header v2, KIP-482).
	Flexible(key, version int16) bool
	// Handle handles one request. The context ends when the client disconnects or the server stops.
	// The reply may alias req.Body. If Handle returns an error, Reply.Release is called nevertheless.
	Handle(ctx context.Context, req *Request) (Reply, error)
}

// Options configures a Server. Handler and Listener are required.
type Options struct {
	Listener net.Listener
	Handler  Handler
	Name     string                 // listener label of metrics; default "kafka"
	APIName  func(key int16) string // api label of metrics; default: the key's number
	Registry prometheus.Registerer  // optional
	Logger   *slog.Logger           // default: discards all messages

	Security Security // TLS and authentication; default: none

	ConnectionsMax int // maximum number of concurrent connections; default 10000
	// ConnectionsPerAddressMax is the maximum number of connections from one IP address. The default
	// is half of ConnectionsMax, so that one address cannot use up all connections.
	ConnectionsPerAddressMax int
	// MediumBytesMax limits the total memory of frames with more than 16 KiB and at most 1 MiB on all
	// connections. The default is 512 MiB. At the limit, further such frames are read only after
	// enough memory has been released.
	MediumBytesMax int64
	// LargeBytesMax is the corresponding limit for frames with more than 1 MiB. The default is 256
	// MiB.
	LargeBytesMax int64
	// Idle is how long a connection stays open while its client sends nothing. The default is 10
	// min, as in Kafka.
	Idle time.Duration
	// Stall is how long the peer may take to send or read the next 1 MiB of a frame or reply, or all
	// of a smaller remainder. After that, the connection is closed. The default is 30 s.
	Stall time.Duration
	// Drain is how long the server continues to send replies after the context of Serve has ended.
	// The default is 5 s.
	Drain time.Duration
	// Linger is how long the server still receives bytes on a connection that it closes after an
	// invalid request, and how long it waits for the client to close the connection after a failed
	// authentication. The default is 1 s.
	Linger time.Duration
}

func (o *Options) setDefaults() {
	if o.Name == "" {
		o.Name = "kafka"
	}
	if o.APIName == nil {
		o.APIName = keyNumber
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.ConnectionsMax = defaulted(o.ConnectionsMax, 10_000)
	o.ConnectionsPerAddressMax = defaulted(o.ConnectionsPerAddressMax, max(1, o.ConnectionsMax/2))
	o.MediumBytesMax = defaulted(o.MediumBytesMax, 512<<20)
	o.LargeBytesMax = defaulted(o.LargeBytesMax, 256<<20)
	o.Idle = defaulted(o.Idle, 10*time.Minute)
	o.Stall = defaulted(o.Stall, 30*time.Second)
	o.Drain = defaulted(o.Drain, 5*time.Second)
	o.Linger = defaulted(o.Linger, time.Second)
	o.Security.setDefaults()
}

func defaulted[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// Server accepts connections and passes their requests to a Handler.
type Server struct {
	opts    Options
	metrics *metrics
	medium  budget        // memory of frames above aheadBytesMax and up to largeBytes
	large   budget        // memory of frames above largeBytes
	slots   chan struct{} // one token for each open connection
	peers   peerCounts    // connections by client address
	conns   sync.WaitGroup
	// accepted is the number of the newest connection.
	accepted atomic.Uint64

	failures failures // failed authentications by address and user
	noKeys   struct {
		sync.Mutex
		fold outage.Fold[struct{}] // tokens that cannot be verified yet
	}
	// unauthenticated contains one token for each connection that has not authenticated yet, and
	// pending counts these connections by address. Both are used only if the listener uses TLS or
	// authentication.
	unauthenticated chan struct{}
	pending         peerCounts
	open            struct {
		sync.Mutex
		connections map[*connection]struct{}
	}

	refusals outage.State // refused connections; only the goroutine of Serve uses it
}

// NewServer returns a Server. Serve runs it.
func NewServer(opts Options) *Server {
	opts.setDefaults()
	s := &Server{
		opts:    opts,
		metrics: newMetrics(opts.Registry, opts.Name, opts.Security.Mechanisms),
		medium:  newBudget(opts.MediumBytesMax),
		large:   newBudget(opts.LargeBytesMax),
		peers:   peerCounts{limit: opts.ConnectionsPerAddressMax, held: map[netip.Addr]int{}},
		slots:   make(chan struct{}, opts.ConnectionsMax),
		pending: peerCounts{limit: opts.Security.UnauthenticatedPerAddressMax,
			held: map[netip.Addr]int{}},
		unauthenticated: make(chan struct{}, opts.Security.UnauthenticatedMax),
	}
	s.open.connections = map[*connection]struct{}{}
	return s
}

func (s *Server) track(c *connection) {
	s.open.Lock()
	defer s.open.Unlock()
	s.open.connections[c] = struct{}{}
}

func (s *Server) untrack(c *connection) {
	s.open.Lock()
	defer s.open.Unlock()
	delete(s.open.connections, c)
}

// Serve accepts connections until ctx ends. It then stops reading requests, waits until the
// requests in progress have got their replies, and returns after all its goroutines have exited.
// Long polls get their replies immediately, because their contexts are canceled too. Serve returns
// an error only if the listener fails; it then returns before ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = s.opts.Listener.Close() })
	// Deferred calls run in reverse order: if the listener fails, cancel ends the connections before
	// conns.Wait waits for them.
	defer s.conns.Wait()
	defer cancel()
	defer stop()
	for accepts := (outage.State{}); ; {
		socket, err := s.opts.Listener.Accept()
		switch {
		case err == nil:
			if failed, ends := accepts.Succeed(); ends {
				s.opts.Logger.Info("accepting connections again", "listener", s.opts.Name,
					"failed", failed)
			}
			s.admit(ctx, socket)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// The usual cause is that the process has no free file descriptor. Closing connections frees
			// descriptors.
			if accepts.Fail(time.Now()) {
				s.opts.Logger.Warn("failed to accept connection", "listener", s.opts.Name, "error",
					err)
			}
			pause(ctx, acceptRetry)
		}
	}
}

// acceptRetry is the pause after a failed accept. Without a pause, the loop would use a whole CPU
// while accept fails.
const acceptRetry = 100 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refuse closes a connection that would exceed a limit. It counts every connection in the metric,
// but logs only the first of a series, because clients reconnect immediately.
func (s *Server) refuse(socket net.Conn, reason string, limit int) {
	s.metrics.rejected(reason)
	if s.refusals.Fail(time.Now()) {
		s.opts.Logger.Warn("connection refused: limit reached", "listener", s.opts.Name, "remote",
			socket.RemoteAddr(), "reason", reason, "limit", limit)
	}
	_ = socket.Close()
}

// admit starts the goroutines of a connection, or refuses the connection. It does not wait for a
// slot: a client whose connection is closed tries another broker, but to a client that has to wait,
// this broker would appear to hang.
func (s *Server) admit(ctx context.Context, socket net.Conn) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(socket, rejectConnections, s.opts.ConnectionsMax)
		return
	}
	peer := addressOf(socket)
	if !s.peers.acquire(peer) {
		<-s.slots
		s.refuse(socket, rejectAddress, s.opts.ConnectionsPerAddressMax)
		return
	}
	established, ok := s.admitUnauthenticated(socket, peer)
	if !ok {
		<-s.slots
		s.peers.release(peer)
		return
	}
	if failed, ends := s.refusals.Succeed(); ends {
		s.opts.Logger.Info("accepting connections again: below the limit", "listener",
			s.opts.Name, "refused", failed)
	}
	s.metrics.connections.Inc()
	c := newConnection(s, socket) // here, so that the numbers are in the order of the connections
	s.conns.Go(func() {
		c.serve(ctx, established)
		s.metrics.connections.Dec()
		s.peers.release(peer)
		<-s.slots
	})
}

// admitUnauthenticated counts a connection that must authenticate, or refuses it. The caller must
// call established when the client is authenticated or the connection has failed.
func (s *Server) admitUnauthenticated(socket net.Conn, peer netip.Addr) (established func(),
	ok bool) {
	security := &s.opts.Security
	if !security.establishes() {
		return func() {}, true
	}
	if s.failures.refuses(peer, time.Now()) {
		s.refuse(socket, rejectFailures, security.FailuresMax*unnamedFactor)
		return nil, false
	}
	select {
	case s.unauthenticated <- struct{}{}:
	default:
		s.refuse(socket, rejectUnauthenticatedMax, security.UnauthenticatedMax)
		return nil, false
	}
	if !s.pending.acquire(peer) {
		<-s.unauthenticated
		s.refuse(socket, rejectUnauthenticatedAddress, security.UnauthenticatedPerAddressMax)
		return nil, false
	}
	return func() {
		s.pending.release(peer)
		<-s.unauthenticated
	}, true
}
