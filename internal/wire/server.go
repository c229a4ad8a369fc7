package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// Request is one request frame with its header decoded.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" if the client sent none
	// Body is valid until ReleaseBody, or until the reply was sent: a handler must copy the parts
	// that it keeps.
	Body []byte
	// Listener is Options.Name of the server that accepted the connection.
	Listener string
	// Principal is the identity of the client: Anonymous without authentication.
	Principal Principal
	Remote    net.Addr
	// Release returns the memory of Body and its share of the budget; nil: nothing to return. Call
	// ReleaseBody instead.
	Release func()
	// NextRequest receives one value when the client has sent another request, which waits for the
	// reply to this one.
	NextRequest <-chan struct{}
}

// ReleaseBody releases Body before the request is answered. A handler calls it before it waits, if
// it needs Body no longer: requests that wait would otherwise keep others from being read. The
// reply must not alias Body then.
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
	File     vfs.File // not nil: Length bytes from Position
	Position int64
	Length   int
}

// Reply is the body of a response: the bytes after the correlation id and, in flexible versions,
// the tags of the header.
type Reply struct {
	Flexible bool // the response header carries tags; never for ApiVersions
	Chunks   []Chunk
	Release  func() // called after the reply was sent or abandoned; may be nil
	None     bool   // the request has no response (acks=0)
	Error    string // Kafka error name for request_errors_total; empty: none
}

// Handler answers requests. An error closes the connection. The requests of one connection arrive
// one after the other.
type Handler interface {
	// FrameMax returns the largest frame of an API key, in bytes; 0 if the key is not served, which
	// closes the connection, as in Kafka.
	FrameMax(key int16) int
	// Flexible reports whether the header of a request carries tagged fields (header v2, KIP-482).
	Flexible(key, version int16) bool
	// Handle answers one request. ctx ends when the client disconnects or the server stops. The
	// reply may alias req.Body. The reply's Release is called even if an error is returned with it.
	Handle(ctx context.Context, req *Request) (Reply, error)
}

// Options configure a Server. Handler and Listener are required.
type Options struct {
	Listener net.Listener
	Handler  Handler
	Name     string                 // listener label of metrics; default "kafka"
	APIName  func(key int16) string // api label of metrics; default: the key's number
	Registry prometheus.Registerer  // may be nil
	Logger   *slog.Logger           // default: discards

	ConnectionsMax int // concurrent connections; default 10000
	// ConnectionsPerAddressMax bounds the connections of one IP address; default half of
	// ConnectionsMax, so that no address can take all.
	ConnectionsPerAddressMax int
	// MediumBytesMax bounds the bytes of frames above 16 KiB and up to 1 MiB of all connections
	// together; default 512 MiB.
	MediumBytesMax int64
	// LargeBytesMax bounds the bytes of frames above 1 MiB of all connections together; default 256
	// MiB.
	LargeBytesMax int64
	// Idle is how long a connection may send nothing before it is closed; default 10 min, as in
	// Kafka.
	Idle time.Duration
	// Stall is how long a frame or reply may take for each 1 MiB, or for its rest, before the
	// connection is closed; default 30 s.
	Stall time.Duration
	// Drain is how long a reply may take after the ctx of Serve has ended; default 5 s.
	Drain time.Duration
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
	medium  budget        // of frames above aheadBytesMax and up to largeBytes
	large   budget        // of frames above largeBytes
	slots   chan struct{} // one token for each connection
	peers   peerCounts
	conns   sync.WaitGroup

	refusals outage.State // connections refused above a limit; used by Serve alone
}

// NewServer returns a Server; call Serve to run it.
func NewServer(opts Options) *Server {
	opts.setDefaults()
	return &Server{
		opts:    opts,
		metrics: newMetrics(opts.Registry, opts.Name),
		medium:  newBudget(opts.MediumBytesMax),
		large:   newBudget(opts.LargeBytesMax),
		peers:   peerCounts{limit: opts.ConnectionsPerAddressMax, held: map[netip.Addr]int{}},
		slots:   make(chan struct{}, opts.ConnectionsMax),
	}
}

// Serve runs until ctx ends, then reads no more requests, waits until the current ones are answered
// (their ctx ends, so long polls return), and joins every goroutine. It returns early with an error
// only if the listener fails.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = s.opts.Listener.Close() })
	// Deferred calls run in reverse: a listener that fails ends the connections before they are
	// joined.
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
			// Usually the process is out of file descriptors, which are freed when connections end.
			if accepts.Fail(time.Now()) {
				s.opts.Logger.Warn("failed to accept connection", "listener", s.opts.Name, "error",
					err)
			}
			pause(ctx, acceptRetry)
		}
	}
}

// acceptRetry is the pause after a failed accept: without it the loop would spin.
const acceptRetry = 100 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refuse closes a connection above a limit. Only the first of a series is logged, and every one is
// counted: clients reconnect at once.
func (s *Server) refuse(socket net.Conn, reason string, limit int) {
	s.metrics.rejected(reason)
	if s.refusals.Fail(time.Now()) {
		s.opts.Logger.Warn("connection refused: limit reached", "listener", s.opts.Name, "remote",
			socket.RemoteAddr(), "reason", reason, "limit", limit)
	}
	_ = socket.Close()
}

// admit starts the goroutines of a connection, or refuses it. It never waits for a slot: a client
// whose connection is closed tries another broker, and one that is kept waiting takes this broker
// for hung.
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
	if failed, ends := s.refusals.Succeed(); ends {
		s.opts.Logger.Info("accepting connections again: below the limit", "listener",
			s.opts.Name, "refused", failed)
	}
	s.metrics.connections.Inc()
	s.conns.Go(func() {
		newConnection(s, socket).serve(ctx)
		s.metrics.connections.Dec()
		s.peers.release(peer)
		<-s.slots
	})
}
