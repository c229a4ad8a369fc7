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
			t.Fatalf("reply %d has correlation id %d and %d bytes", i, id, len(body))
		}
	}
}

// TestHeaderFollowsFlexibility checks quirk 4: headers of requests and responses have tags exactly
// when the version is flexible, and unknown tags are skipped.
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
		t.Errorf("reply to %d, want 2: a request without a response must be skipped", id)
	}
}

func TestHandlerErrorClosesTheConnection(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyFail, 0, 1, nil))
	c.wantClosed()
	<-s.handler.released
}

// TestLongPollEndsWhenItsClientDisconnects checks that the ctx of a waiting request ends when the
// client closes the connection.
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
	s.shutdown() // must return although the client does not read
}

// TestServeReturnsWhileAClientReadsSlowly reads all but the first step after the stop, on a slow
// machine too, since one goroutine reads and stops. From then on the client reads at most four
// steps in the time that the whole reply has; the rest of the sent bytes is in the buffers of the
// sockets.
func TestServeReturnsWhileAClientReadsSlowly(t *testing.T) {
	const drain, replyBytes, stepBytes = 100 * time.Millisecond, 64 << 20, 1 << 20
	s := startServer(t, func(o *Options) { o.Drain = drain })
	file, _ := fileOf(t, vfs.OS{}, replyBytes)
	s.handler.chunks = []Chunk{{File: file, Length: replyBytes}}
	c := s.dial()
	c.send(request(keyFiles, 0, 1, nil))
	// Fails the test if the server neither sends nor closes.
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	total, err := io.CopyN(io.Discard, c, stepBytes)
	s.stop()
	for err == nil {
		time.Sleep(drain / 4) // within the limit of each step, beyond that of the reply
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
		t.Errorf("%v connections counted as rejected, want 20", n)
	}
	if lines := strings.Count(s.log.String(), "connection refused"); lines != 1 {
		t.Errorf("the refusal was logged %d times, want once", lines)
	}
}

// TestBuffersAreNotSharedBetweenRequests checks that a pooled buffer is not reused while a reply
// aliases it.
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

// TestLargeFramesShareABudget checks that large frames of all connections are charged to one budget
// until their requests are answered.
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
# HELP heartwood_requests_in_flight Requests being handled, including those that wait.
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
# HELP heartwood_request_errors_total Requests with an error response, by the first Kafka error.
# TYPE heartwood_request_errors_total counter
heartwood_request_errors_total{api="2",error="REQUEST_TIMED_OUT"} 1
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want),
		"heartwood_request_errors_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(s.metrics.duration); n != 2 {
		t.Errorf("durations of %d APIs, want 2", n)
	}
}

func TestListenersShareARegistry(t *testing.T) {
	s := startServer(t, nil)
	second := newMetrics(s.registry, "other")
	second.rejected(rejectHTTP)
	if n := testutil.ToFloat64(s.metrics.rejections.WithLabelValues("other", rejectHTTP)); n != 1 {
		t.Errorf("counted %v, want 1", n)
	}
}
