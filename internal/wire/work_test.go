package wire

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// readers returns the number of goroutines that read and handle requests, on all connections of the
// test process.
func readers() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*connection).work(")
}

// TestWaitingRequestHasAnotherReader checks that only one goroutine reads and handles requests
// while no request waits, and that all goroutines exit after a request has waited.
func TestWaitingRequestHasAnotherReader(t *testing.T) {
	s := startServer(t, nil)
	before := readers()
	c := s.dial()
	for id := range int32(100) {
		c.send(request(keyEcho, 0, id, nil))
		c.reply()
		if now := readers() - before; now != 1 {
			t.Fatalf("goroutines after %d requests: got %d, want 1", id+1, now)
		}
	}
	c.send(request(keyWait, 0, 100, nil))
	<-s.handler.waiting
	c.send(request(keyEcho, 0, 101, nil)) // read while request 100 waits
	_ = c.Close()
	s.shutdown()
	if now := readers() - before; now != 0 {
		t.Errorf("%d goroutines have not ended", now)
	}
}

// mixedHandler replies to some requests immediately and to others after a wait. It uses all the
// ways in which handlers wait.
type mixedHandler struct{ *testHandler }

func (m mixedHandler) Handle(ctx context.Context, req *Request) (Reply, error) {
	switch req.Body[0] % 4 {
	case 1:
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Microsecond):
		}
	case 2: // the child context calls ctx.Done
		child, cancel := context.WithTimeout(ctx, 50*time.Microsecond)
		defer cancel()
		<-child.Done()
	case 3: // ctx.Done is called after the request has its reply
		time.AfterFunc(50*time.Microsecond, func() { _ = ctx.Done() })
	}
	return Reply{Chunks: []Chunk{{Bytes: []byte{req.Body[0]}}}}, nil
}

// TestRepliesOfMixedRequestsKeepTheirOrder checks that replies have the order of the requests even
// if some requests wait. Run with the race detector, it finds most concurrency bugs.
func TestRepliesOfMixedRequestsKeepTheirOrder(t *testing.T) {
	before := readers()
	s := startServer(t, func(o *Options) { o.Handler = mixedHandler{newTestHandler()} })
	const requests = 500
	var all sync.WaitGroup
	for g := range 4 {
		c := s.dial()
		body := func(id int32) byte { return byte(int(id)*7 + int(id)/5 + g) }
		all.Go(func() {
			for id := range int32(requests) {
				if _, err := c.Write(request(keyEcho, 0, id, []byte{body(id)})); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for id := range int32(requests) {
				if got, rest := c.reply(); got != id || len(rest) != 1 || rest[0] != body(id) {
					t.Errorf("reply %d %v, want %d [%d]", got, rest, id, body(id))
					return
				}
			}
		})
	}
	all.Wait()
	s.shutdown()
	if now := readers() - before; now != 0 {
		t.Errorf("%d goroutines have not ended", now)
	}
}

func TestRequestContextSignalsTheFirstWaitOnly(t *testing.T) {
	calls := 0
	early := &requestContext{Context: t.Context(), onWait: func() { calls++ }}
	_, _ = early.Done(), early.Done()
	if calls != 1 || !early.hasWaited() {
		t.Errorf("%d calls of onWait, want 1", calls)
	}
	late := &requestContext{Context: t.Context(), onWait: func() { calls++ }}
	if late.hasWaited() {
		t.Error("hasWaited is true before Done was called")
	}
	if _ = late.Done(); calls != 1 {
		t.Error("onWait was called after the request was answered")
	}
	if late.Done() == nil || late.Err() != nil {
		t.Error("the context differs from its parent")
	}
}
