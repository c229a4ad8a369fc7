package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// TestInvalidRequestDoesNotResetTheConnection pipelines a request that waits for the next one, an
// invalid request, and many more bytes. The first request must get its reply before the connection
// is closed. The connection must end with FIN, not with RST, because RST could make the client lose
// a reply in transit.
func TestInvalidRequestDoesNotResetTheConnection(t *testing.T) {
	for name, invalid := range map[string][]byte{
		"unknown API":            request(99, 0, 2, []byte("unknown")),
		"refused by the handler": request(keyFail, 0, 2, nil),
		"malformed header": append(kbin.AppendInt32(nil, 14),
			0, keyEcho, 0, 0, 0, 0, 0, 2, 0x7f, 0xff, 'a', 'b', 'c', 'd'),
		"frame above 100 MB": kbin.AppendInt32(nil, frameBytesMax+1),
		"negative size":      kbin.AppendInt32(nil, -1),
		"frame above the limit of its API": append(kbin.AppendInt32(nil, 200_001),
			0, keyEcho, 0, 0, 0, 0, 0, 2),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, nil)
			s.handler.frameMax = 200_000
			c := s.dial()
			c.send(slices.Concat(request(keyBehind, 0, 1, nil), invalid,
				request(keyEcho, 0, 3, make([]byte, 100_000))))
			if id, _ := c.reply(); id != 1 {
				t.Errorf("got a reply to request %d, want 1", id)
			}
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after the reply: %d bytes, error %v, want EOF", n, err)
			}
			s.shutdown()
			for len(s.handler.got) > 0 {
				if got := <-s.handler.got; got.CorrelationID == 3 {
					t.Error("a request behind the invalid one was handled")
				}
			}
		})
	}
}

// TestEndlessClientIsNotDrainedForever sends endless bytes after an invalid frame. The server must
// close the connection after lingerBytesMax; the client's writes then fail.
func TestEndlessClientIsNotDrainedForever(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(99, 0, 1, nil))
	chunk := make([]byte, 1<<20)
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

// halfClosed is a connection that counts calls of CloseWrite.
type halfClosed struct {
	net.Conn
	calls int
}

func (h *halfClosed) CloseWrite() error {
	h.calls++
	return nil
}

// failingHandler refuses every request. If wait is set, it first begins to wait.
type failingHandler struct {
	*testHandler
	wait bool
}

func (f failingHandler) Handle(ctx context.Context, _ *Request) (Reply, error) {
	if f.wait {
		_ = ctx.Done()
	}
	return Reply{}, errors.New("refused")
}

// TestConnectionLingersOnlyWithOneReader checks that a refused request that has waited closes the
// connection immediately, because another goroutine reads from the socket at that time.
func TestConnectionLingersOnlyWithOneReader(t *testing.T) {
	for wait, want := range map[bool]int{false: 1, true: 0} {
		ours, theirs := net.Pipe()
		socket := &halfClosed{Conn: ours}
		server := NewServer(Options{Handler: failingHandler{newTestHandler(), wait}})
		served := make(chan struct{})
		go func() {
			defer close(served)
			newConnection(server, socket).serve(t.Context(), func() {})
		}()
		if _, err := theirs.Write(request(keyEcho, 0, 1, nil)); err != nil {
			t.Fatal(err)
		}
		<-served
		if socket.calls != want {
			t.Errorf("request that waits %t: %d calls of CloseWrite, want %d", wait, socket.calls,
				want)
		}
		_ = theirs.Close()
	}
}

// TestFailedAuthenticationLetsTheClientCloseFirst checks that the server does not close the
// connection immediately after the reply, because kafka-python 3.0.12 loses a reply that arrives
// together with the end of the connection.
func TestFailedAuthenticationLetsTheClientCloseFirst(t *testing.T) {
	ours, theirs := net.Pipe()
	socket := &halfClosed{Conn: ours}
	server := NewServer(Options{Handler: newTestHandler(), Security: scramSecurity(t),
		Linger: time.Hour})
	served := make(chan struct{})
	go func() {
		defer close(served)
		newConnection(server, socket).serve(t.Context(), func() {})
	}()
	c := &client{theirs, t}
	if got := c.login("alice", "wrong"); got.code == 0 {
		t.Errorf("authenticated: %+v", got)
	}
	_ = c.Close()
	<-served
	if socket.calls != 0 {
		t.Error("the server has closed the connection before the client")
	}
}
