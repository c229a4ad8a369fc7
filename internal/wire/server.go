package wire

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/vfs"
)

// Request is one request frame, its header decoded.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string
	Body          []byte // valid until the reply was sent
	Remote        net.Addr
}

// Chunk is a part of a reply: bytes, or a range of a file that goes out without being copied.
type Chunk struct {
	Bytes    []byte
	File     vfs.File // when not nil, Length bytes from Position
	Position int64
	Length   int
}

// Reply is the body of a response (what follows the correlation id and, for flexible versions, the header's tags).
type Reply struct {
	Flexible bool // the response header carries tags; never for ApiVersions
	Chunks   []Chunk
	Release  func() // called once the reply was sent or given up; may be nil
	None     bool   // no answer at all (acks=0)
	Error    string // Kafka error name for request_errors_total; empty: none
}

// Handler answers requests. An error closes the connection. Requests of one connection come one after the other.
type Handler interface {
	// FrameMax returns the largest frame taken for an API key, in bytes.
	FrameMax(key int16) int
	Handle(ctx context.Context, req *Request) (Reply, error)
}

// Options of a Server.
type Options struct {
	Listener net.Listener
	Handler  Handler
	Name     string // listener label of metrics
	APIName  func(key int16) string
	Registry prometheus.Registerer // may be nil
	Logger   *slog.Logger
}

// Server takes connections and hands their requests to a Handler.
type Server struct{}

// NewServer returns a server; Serve runs it until ctx ends, then stops taking requests, lets those in hand finish (their ctx is
// cancelled, so long polls end), and joins every goroutine.
func NewServer(opts Options) *Server              { panic("unwritten") }
func (s *Server) Serve(ctx context.Context) error { panic("unwritten") }
