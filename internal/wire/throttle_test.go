package wire

import (
	"context"
	"testing"
	"time"
)

// throttlingHandler throttles a client for a time, unless its request is "free".
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

// TestThrottledClientWaitsForItsNextReply sends requests without waiting, as a client that ignores
// the throttle does. The reply itself is sent at once (KIP-219).
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

// TestThrottledClientsDoNotSlowOthers throttles one connection for an hour.
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

// TestEndOfThrottledConnectionIsDetected: a throttle may take long, and a connection whose client
// has gone must not stay open for that long.
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

// TestServerStopsWhileClientsAreThrottled: the cleanup of the test waits until Serve has returned.
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
