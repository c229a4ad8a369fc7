package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/test/kit/output"
)

// The API keys that testHandler supports, with its action for each of them.
const (
	keyEcho   = 1 // replies with the request's body
	keyWait   = 2 // waits until its ctx ends, then replies
	keySilent = 3 // sends no response
	keyFail   = 4 // returns an error, which closes the connection
	keyFiles  = 5 // replies with testHandler.chunks
	keyDrop   = 6 // releases its body, waits until its ctx ends, then replies
	keyBehind = 7 // waits until the next request has arrived, then replies
)

// flexibleFrom is the first flexible version of every API of testHandler.
const flexibleFrom = 2

// testHandler implements Handler for the tests.
type testHandler struct {
	frameMax int
	chunks   []Chunk
	waiting  chan struct{} // signals that a request begins to wait
	released chan struct{} // signals that a reply has been released
	got      chan Request  // each request, with a copy of its body
}

func newTestHandler() *testHandler {
	return &testHandler{
		frameMax: frameBytesMax,
		waiting:  make(chan struct{}, 10_000), released: make(chan struct{}, 10_000),
		got: make(chan Request, 10_000),
	}
}

func (h *testHandler) FrameMax(key int16) int {
	if key < keyEcho || key > keyBehind {
		return 0
	}
	return h.frameMax
}

func (h *testHandler) Flexible(_, version int16) bool { return version >= flexibleFrom }

func (h *testHandler) Handle(ctx context.Context, req *Request) (Reply, error) {
	reply := Reply{Flexible: h.Flexible(req.Key, req.Version),
		Release: func() { h.released <- struct{}{} }}
	kept := *req
	kept.Body = bytes.Clone(req.Body)
	h.got <- kept
	switch req.Key {
	case keyEcho:
		reply.Chunks = []Chunk{{Bytes: req.Body}}
	case keyWait, keyDrop:
		if req.Key == keyDrop {
			req.ReleaseBody()
		}
		h.waiting <- struct{}{}
		<-ctx.Done()
		reply.Chunks = []Chunk{{Bytes: []byte("woken")}}
		reply.Error = "REQUEST_TIMED_OUT"
	case keyBehind:
		h.waiting <- struct{}{}
		select {
		case <-req.NextRequest:
		case <-ctx.Done():
			return reply, ctx.Err()
		}
	case keySilent:
		reply.None = true
	case keyFail:
		return reply, io.ErrNoProgress
	case keyFiles:
		reply.Chunks = h.chunks
	}
	return reply, nil
}

// testServer is a server on the loopback interface with its log and metrics.
type testServer struct {
	*Server
	t        *testing.T
	handler  *testHandler
	registry *prometheus.Registry
	stop     context.CancelFunc
	served   chan error
	log      output.Buffer
}

// lengthen sets long timeouts for options that a test has not set, so that they do not expire on a
// slow machine.
func lengthen(o *Options) {
	o.Stall, o.Drain = defaulted(o.Stall, time.Hour), defaulted(o.Drain, time.Hour)
	o.Idle, o.Linger = defaulted(o.Idle, time.Hour), defaulted(o.Linger, time.Hour)
	security := &o.Security
	security.HandshakeTimeout = defaulted(security.HandshakeTimeout, time.Hour)
	security.AuthenticationTimeout = defaulted(security.AuthenticationTimeout, time.Hour)
}

func startServer(t *testing.T, change func(*Options)) *testServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{t: t, handler: newTestHandler(), registry: prometheus.NewRegistry(),
		served: make(chan error, 1)}
	opts := Options{
		Listener: listener, Handler: s.handler, Registry: s.registry, Name: "test",
		Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&opts)
	}
	lengthen(&opts)
	s.Server = NewServer(opts)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.served <- s.Serve(ctx) }()
	t.Cleanup(s.shutdown)
	return s
}

// shutdown stops the server, and waits until Serve has returned.
func (s *testServer) shutdown() {
	s.stop()
	if err := <-s.served; err != nil {
		s.t.Errorf("serve: %v", err)
	}
	s.served <- nil // lets a second call of shutdown receive a value
}

// client is a TCP connection to the server.
type client struct {
	net.Conn
	t *testing.T
}

func (s *testServer) dial() *client {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.opts.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, s.t}
}

func (c *client) send(raw []byte) {
	c.t.Helper()
	if _, err := c.Write(raw); err != nil {
		c.t.Fatal(err)
	}
}

// reply reads one response frame. It returns the correlation id and the bytes after it.
func (c *client) reply() (int32, []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	rest := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, rest); err != nil {
		c.t.Fatalf("read a reply of %d bytes: %v", len(rest), err)
	}
	return int32(binary.BigEndian.Uint32(rest)), rest[4:]
}

// wantClosed fails the test if the server sends another byte instead of closing the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		c.t.Fatal("the server has not closed the connection")
	}
}

// request encodes a request frame, with a header of version 1 or 2.
func request(key, version int16, correlation int32, body []byte) []byte {
	var b []byte
	b = kbin.AppendInt16(b, key)
	b = kbin.AppendInt16(b, version)
	b = kbin.AppendInt32(b, correlation)
	id := "tester"
	b = kbin.AppendNullableString(b, &id)
	if version >= flexibleFrom {
		b = append(b, 1, 7, 2, 'x', 'y') // one unknown tagged field: tag 7, two bytes
	}
	b = append(b, body...)
	return append(kbin.AppendInt32(nil, int32(len(b))), b...)
}
