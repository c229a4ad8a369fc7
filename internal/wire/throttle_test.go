package wire

import (
	"context"
	"testing"
	"time"
)

// throttlingHandler throttles a client for a fixed time, unless its request is "free".
type throttlingHandler struct {
	*testHandler
	throttle time.Duration
}

func (h throttlingHandler) Handle(ctx context.Context, req *Request) (Reply, error) {
	reply, err := h.testHandler.Handle(ctx, req)
	if string(req.Body) != "free" {
		reply.Throttle = h.throttle
	}
	return reply, err
}

// TestThrottledClientWaitsForItsNextReply sends requests without waiting, like a client that
// ignores the throttle. The reply with the throttle must be sent immediately (KIP-219), and the
// next reply must wait.
func TestThrottledClientWaitsForItsNextReply(t *testing.T) {
	const throttle = 300 * time.Millisecond
	s := startServer(t, func(o *Options) {
		o.Handler = throttlingHandler{newTestHandler(), throttle}
	})
	for name, key := range map[string]int16{"reply": keyEcho, "no reply": keySilent} {
		c := s.dial()
		began := time.Now() // before both throttles
		c.send(request(key, 0, 1, []byte("a")))
		if key == keyEcho {
			c.reply()
		}
		for id := int32(2); id <= 3; id++ {
			c.send(request(keyEcho, 0, id, []byte("b")))
		}
		for id := int32(2); id <= 3; id++ {
			if got, _ := c.reply(); got != id {
				t.Fatalf("reply %d, want %d", got, id)
			}
		}
		if passed := time.Since(began); passed < 2*throttle {
			t.Errorf("%s: the client was throttled for %v", name, passed)
		}
	}
}

// TestThrottledClientsDoNotSlowOthers checks that other connections are not affected while one
// connection is throttled for an hour.
func TestThrottledClientsDoNotSlowOthers(t *testing.T) {
	s := startServer(t, func(o *Options) {
		o.Handler = throttlingHandler{newTestHandler(), time.Hour}
	})
	c := s.dial()
	c.send(request(keyEcho, 0, 1, []byte("a")))
	c.reply()
	c.send(request(keyEcho, 0, 2, []byte("a")))
	other := s.dial()
	for id := range int32(100) {
		other.send(request(keyEcho, 0, id, []byte("free")))
		other.reply()
	}
}

// TestEndOfThrottledConnectionIsDetected checks that a throttled connection whose client has
// disconnected is closed without waiting for the throttle, which can be long.
func TestEndOfThrottledConnectionIsDetected(t *testing.T) {
	s := startServer(t, func(o *Options) {
		o.Handler = throttlingHandler{newTestHandler(), time.Hour}
	})
	c := s.dial()
	c.send(request(keyEcho, 0, 1, []byte("a")))
	c.reply()
	_ = c.Close()
	s.eventually(func() bool {
		s.open.Lock()
		defer s.open.Unlock()
		return len(s.open.connections) == 0
	}, "the end of the connection")
}

// TestServerStopsWhileClientsAreThrottled checks that Serve returns while a client is throttled.
// The test's cleanup waits until Serve has returned.
func TestServerStopsWhileClientsAreThrottled(t *testing.T) {
	s := startServer(t, func(o *Options) {
		o.Handler = throttlingHandler{newTestHandler(), time.Hour}
	})
	c := s.dial()
	c.send(request(keyEcho, 0, 1, []byte("a")))
	c.reply()
	c.send(request(keyEcho, 0, 2, []byte("a")))
	s.shutdown()
	c.wantClosed()
}
