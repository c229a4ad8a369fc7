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

// Request is one request frame, its header decoded.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // empty if the client sent none
	// valid until Drop, or until the reply was sent: what is kept of it has to be copied
	Body []byte
	// Listener is the name of the listener on which the connection was accepted: Options.Name.
	Listener string
	// Principal is the identity of the client: Anonymous without authentication.
	Principal Principal
	Remote    net.Addr
	// gives Body's memory and its share of the budget back; nil: nobody wants them. It is Drop's to
	// call
	Release func()
	// NextRequest has something to receive, once, when the client has sent another request, which waits
	// for the answer to this one.
	NextRequest <-chan struct{}
}

// ReleaseBody gives up Body before the request is answered. A handler that is about to wait, and needs
// Body no more, calls it: otherwise those who wait keep others from being read. The reply must not
// alias Body then.
func (r *Request) ReleaseBody() {
	free := r.Release
	r.Body, r.Release = nil, nil
	if free != nil {
		free()
	}
}

// Chunk is a part of a reply: bytes, or a range of a file that goes out without being copied.
type Chunk struct {
	Bytes    []byte
	File     vfs.File // when not nil, Length bytes from Position
	Position int64
	Length   int
}

// Reply is the body of a response (what follows the correlation id and, for flexible versions, the
// header's tags).
type Reply struct {
	Flexible bool // the response header carries tags; never for ApiVersions
	Chunks   []Chunk
	Release  func() // called once the reply was sent or given up; may be nil
	None     bool   // no answer at all (acks=0)
	Error    string // Kafka error name for request_errors_total; empty: none
}

// Handler answers requests. An error closes the connection. Requests of one connection come one
// after the other.
type Handler interface {
	// FrameMax returns the largest frame taken for an API key, in bytes; 0 if the key is not
	// served, which closes the connection, as Kafka does.
	FrameMax(key int16) int
	// Flexible tells whether the header of a request carries tagged fields (header v2, KIP-482).
	Flexible(key, version int16) bool
	// Handle answers one request. ctx ends when the client goes or the server stops. The reply may
	// alias req.Body; its Release is called also when an error comes with it.
	Handle(ctx context.Context, req *Request) (Reply, error)
}

// Options of a Server. Handler and Listener must be set.
type Options struct {
	Listener net.Listener
	Handler  Handler
	Name     string                 // listener label of metrics; default "kafka"
	APIName  func(key int16) string // api label of metrics; default: the key's number
	Registry prometheus.Registerer  // may be nil
	Logger   *slog.Logger           // default: discards

	ConnectionsMax int // connections at once; default 10000
	// ConnectionsPerAddressMax is how many of them one IP address may have; default half of
	// ConnectionsMax, so that none takes all.
	ConnectionsPerAddressMax int
	// bytes that frames above 16 KiB and up to 1 MiB hold together, all connections; default 512
	// MiB
	MediumBytesMax int64
	// bytes that frames above 1 MiB hold together, all connections; default 256 MiB
	LargeBytesMax int64
	// a connection that sends nothing for so long is closed; default 10 min, as Kafka
	Idle time.Duration
	// a frame or reply of which not stepBytes more, or its rest, moved in so long closes the
	// connection; default 30 s
	Stall time.Duration
	// after Serve's ctx ended, how long a reply may take to leave; default 5 s
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

// defaulted returns value, or standard if value is zero.
func defaulted[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// Server takes connections and hands their requests to a Handler.
type Server struct {
	opts    Options
	metrics *metrics
	// bytes of frames above aheadBytesMax and up to largeBytes; held <= Options.MediumBytesMax
	medium budget
	large  budget        // bytes of frames above largeBytes; held <= Options.LargeBytesMax
	slots  chan struct{} // holds one a connection; len(slots) <= Options.ConnectionsMax
	peers  peerCounts
	conns  sync.WaitGroup

	refusals outage.State // of connections, one too many; of Serve's goroutine
}

// NewServer returns a server; Serve runs it.
func NewServer(opts Options) *Server {
	opts.setDefaults()
	return &Server{
		opts:    opts,
		metrics: newMetrics(opts.Registry, opts.Name),
		medium:  newBudget(opts.MediumBytesMax),
		large:   newBudget(opts.LargeBytesMax),
		peers:   peerCounts{most: opts.ConnectionsPerAddressMax, held: map[netip.Addr]int{}},
		slots:   make(chan struct{}, opts.ConnectionsMax),
	}
}

// Serve runs until ctx ends, then stops taking requests, lets those in hand finish (their ctx is
// cancelled, so long polls end), and joins every goroutine. It returns early, with an error, only
// if the listener fails.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = s.opts.Listener.Close() })
	// They run from the last to the first: a listener that fails ends the connections, too, before
	// they are joined.
	defer s.conns.Wait()
	defer cancel()
	defer stop()
	for accepts := (outage.State{}); ; {
		socket, err := s.opts.Listener.Accept()
		switch {
		case err == nil:
			if failed, ends := accepts.Succeed(); ends {
				s.opts.Logger.Info("connections are accepted again", "listener", s.opts.Name,
					"failed", failed)
			}
			s.take(ctx, socket)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Most likely out of file descriptors: they come back when connections end.
			if accepts.Fail(time.Now()) {
				s.opts.Logger.Warn("accept failed", "listener", s.opts.Name, "error", err)
			}
			pause(ctx, acceptRetry)
		}
	}
}

// acceptRetry is how long a failed accept waits: without a pause the loop would keep a processor
// busy while it lasts.
const acceptRetry = 100 * time.Millisecond

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refuse closes a connection that is one too many. That is a warning once, and a metric each time:
// a client that is refused comes again at once.
func (s *Server) refuse(socket net.Conn, reason string, limit int) {
	s.metrics.rejected(reason)
	if s.refusals.Fail(time.Now()) {
		s.opts.Logger.Warn("connection refused: too many", "listener", s.opts.Name, "remote",
			socket.RemoteAddr(), "reason", reason, "limit", limit)
	}
	_ = socket.Close()
}

// take starts a connection's goroutines, or refuses it. It does not wait for a slot: a client whose
// connection is closed tries another broker, one that is kept waiting takes this one for hung.
func (s *Server) take(ctx context.Context, socket net.Conn) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(socket, rejectConnections, s.opts.ConnectionsMax)
		return
	}
	peer := addressOf(socket)
	if !s.peers.take(peer) {
		<-s.slots
		s.refuse(socket, rejectAddress, s.opts.ConnectionsPerAddressMax)
		return
	}
	if failed, ends := s.refusals.Succeed(); ends {
		s.opts.Logger.Info("connections are taken again", "listener", s.opts.Name, "refused",
			failed)
	}
	s.metrics.connections.Inc()
	s.conns.Go(func() {
		newConnection(s, socket).serve(ctx)
		s.metrics.connections.Dec()
		s.peers.give(peer)
		<-s.slots
	})
}
