package wire

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestQuirk16RepliesKeepTheOrderOfRequests(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	var pipelined []byte
	for i := range int32(200) {
		pipelined = append(pipelined,
			request(keyEcho, 0, i, bytes.Repeat([]byte{byte(i)}, int(i)*37))...)
	}
	go func() { _, _ = c.Write(pipelined) }()
	for i := range int32(200) {
		id, body := c.reply()
		if id != i || !bytes.Equal(body, bytes.Repeat([]byte{byte(i)}, int(i)*37)) {
			t.Fatalf("got correlation id %d and %d bytes, want id %d and %d bytes", id, len(body),
				i, int(i)*37)
		}
	}
}

// TestHeaderFollowsFlexibility checks quirk 4: the headers of requests and responses contain tagged
// fields only if the version is flexible, and unknown tags are skipped.
func TestHeaderFollowsFlexibility(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	for version, tags := range map[int16]string{0: "", flexibleFrom: "\x00"} {
		c.send(request(keyEcho, version, 5, []byte("body")))
		if id, body := c.reply(); id != 5 || string(body) != tags+"body" {
			t.Errorf("version %d: reply %d %q", version, id, body)
		}
		req := <-s.handler.got
		if req.ClientID != "tester" || req.Version != version || req.CorrelationID != 5 ||
			req.Remote == nil {
			t.Errorf("unexpected request %+v", req)
		}
	}
}

func TestSlowFramesAreRead(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	for _, b := range request(keyEcho, 0, 1, []byte("slow")) {
		c.send([]byte{b})
	}
	if _, body := c.reply(); string(body) != "slow" {
		t.Errorf("reply %q", body)
	}
}

func TestRequestWithoutReplyKeepsTheOrder(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(append(request(keySilent, 0, 1, nil), request(keyEcho, 0, 2, []byte("x"))...))
	if id, _ := c.reply(); id != 2 {
		t.Errorf("got a reply to request %d, want 2: request 1 has no response", id)
	}
}

func TestHandlerErrorClosesTheConnection(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyFail, 0, 1, nil))
	c.wantClosed()
	<-s.handler.released
}

// TestLongPollEndsWhenItsClientDisconnects checks that the context of a waiting request ends when
// the client closes the connection.
func TestLongPollEndsWhenItsClientDisconnects(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyWait, 0, 1, nil))
	<-s.handler.waiting
	_ = c.Close()
	<-s.handler.released
}

func TestServeAnswersPendingRequestsBeforeItReturns(t *testing.T) {
	s := startServer(t, nil)
	idle, waiting := s.dial(), s.dial()
	idle.send(request(keyEcho, 0, 1, nil))
	idle.reply()
	waiting.send(request(keyWait, 0, 9, nil))
	<-s.handler.waiting
	s.shutdown()
	if id, body := waiting.reply(); id != 9 || string(body) != "woken" {
		t.Errorf("reply %d %q", id, body)
	}
	waiting.wantClosed()
	idle.wantClosed()
	if _, err := net.Dial("tcp", s.opts.Listener.Addr().String()); err == nil {
		t.Error("the listener still accepts connections")
	}
}

func TestServeReturnsWhileAClientDoesNotRead(t *testing.T) {
	s := startServer(t, func(o *Options) { o.Drain = time.Millisecond })
	s.handler.chunks = []Chunk{{Bytes: make([]byte, 64<<20)}}
	c := s.dial()
	c.send(request(keyFiles, 0, 1, nil))
	<-s.handler.got
	s.shutdown() // times out if Serve waits for the client, which does not read
}

// TestServeReturnsWhileAClientReadsSlowly stops the server while a client reads a large reply
// slowly: 1 MiB in a quarter of Options.Drain. Each step of the reply is fast enough, but the whole
// reply may take only Options.Drain, so the client must not receive all of it.
//
// The same goroutine reads and stops the server. So even on a slow machine, the client reads only
// one step before the stop. After the stop, it reads the steps that fit into Options.Drain, and the
// bytes in the sockets' buffers.
func TestServeReturnsWhileAClientReadsSlowly(t *testing.T) {
	const drain, replyBytes, stepBytes = 100 * time.Millisecond, 64 << 20, 1 << 20
	s := startServer(t, func(o *Options) { o.Drain = drain })
	file, _ := fileOf(t, vfs.OS{}, replyBytes)
	s.handler.chunks = []Chunk{{File: file, Length: replyBytes}}
	c := s.dial()
	c.send(request(keyFiles, 0, 1, nil))
	// If the server neither sends nor closes the connection, the read fails after a minute.
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	total, err := io.CopyN(io.Discard, c, stepBytes)
	s.stop()
	for err == nil {
		time.Sleep(drain / 4) // shorter than Options.Drain, but all pauses together are longer
		var n int64
		n, err = io.CopyN(io.Discard, c, stepBytes)
		total += n
	}
	s.shutdown()
	if total >= replyBytes {
		t.Errorf("the server waited until all %d bytes were read", total)
	}
}

func TestServeFailsWhenItsListenerFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Listener: listener, Handler: newTestHandler()})
	_ = listener.Close()
	if err := s.Serve(context.Background()); err == nil {
		t.Error("Serve returned no error")
	}
}

func TestConnectionLimit(t *testing.T) {
	s := startServer(t, func(o *Options) { o.ConnectionsMax, o.ConnectionsPerAddressMax = 2, 2 })
	first, second := s.dial(), s.dial()
	for _, c := range []*client{first, second} {
		c.send(request(keyEcho, 0, 1, nil))
		c.reply()
	}
	const refused = 20
	for range refused {
		s.dial().wantClosed()
	}
	if n := testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test",
		rejectConnections)); n != refused {
		t.Errorf("metric of rejected connections: got %v, want %d", n, refused)
	}
	if lines := strings.Count(s.log.String(), "connection refused"); lines != 1 {
		t.Errorf("log messages on refused connections: got %d, want 1", lines)
	}
}

// TestBuffersAreNotSharedBetweenRequests checks that a request's pooled buffer is not used for
// another request while a reply aliases it.
func TestBuffersAreNotSharedBetweenRequests(t *testing.T) {
	s := startServer(t, nil)
	const clients, requests = 8, 50
	done := make(chan string, clients)
	for n := range clients {
		c := s.dial()
		go func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range requests {
				body := make([]byte, random.IntN(100_000))
				for j := range body {
					body[j] = byte(n)
				}
				if _, err := c.Write(request(keyEcho, 0, int32(i), body)); err != nil {
					done <- err.Error()
					return
				}
				got := make([]byte, 8+len(body))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got[8:], body) {
					done <- "reply differs"
					return
				}
			}
			done <- ""
		}()
	}
	for range clients {
		if failure := <-done; failure != "" {
			t.Error(failure)
		}
	}
}

// TestLargeFramesShareABudget checks that large frames on all connections are charged to one budget
// until their requests have got replies.
func TestLargeFramesShareABudget(t *testing.T) {
	const size, budget = 2 << 20, 5 << 20
	s := startServer(t, func(o *Options) { o.LargeBytesMax = budget })
	body := make([]byte, size)
	first := s.dial()
	first.send(request(keyWait, 0, 1, body))
	<-s.handler.waiting
	if s.large.TryAcquire(budget - size) {
		t.Error("a large frame being handled is not charged")
	}
	_ = first.Close()
	<-s.handler.released
	for i := range 8 {
		c := s.dial()
		go func() { _, _ = c.Write(request(keySilent, 0, int32(i), make([]byte, size+i<<19))) }()
	}
	for range 8 {
		<-s.handler.released
	}
	s.shutdown()
	if !s.large.TryAcquire(budget) {
		t.Error("the budget was not returned")
	}
}

func TestMetrics(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyEcho, 0, 1, nil))
	c.reply()
	c.send(request(keyWait, 0, 2, nil))
	<-s.handler.waiting
	want := `
# HELP heartwood_broker_connections Open client connections.
# TYPE heartwood_broker_connections gauge
heartwood_broker_connections{listener="test"} 1
# HELP heartwood_requests_in_flight Requests that are being handled, long polls included.
# TYPE heartwood_requests_in_flight gauge
heartwood_requests_in_flight 1
`
	err := testutil.GatherAndCompare(s.registry, strings.NewReader(want),
		"heartwood_broker_connections", "heartwood_requests_in_flight")
	if err != nil {
		t.Error(err)
	}
	s.shutdown()
	want = `
# HELP heartwood_request_errors_total Requests answered with an error, by the first Kafka error.
# TYPE heartwood_request_errors_total counter
heartwood_request_errors_total{api="2",error="REQUEST_TIMED_OUT"} 1
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want),
		"heartwood_request_errors_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(s.metrics.duration); n != 2 {
		t.Errorf("APIs with a duration: got %d, want 2", n)
	}
}

func TestListenersShareARegistry(t *testing.T) {
	s := startServer(t, nil)
	second := newMetrics(s.registry, "other", nil)
	second.rejected(rejectHTTP)
	if n := testutil.ToFloat64(s.metrics.rejections.WithLabelValues("other", rejectHTTP)); n != 1 {
		t.Errorf("metric of rejections: got %v, want 1", n)
	}
}
