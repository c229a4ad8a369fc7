package wire

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// working counts the goroutines that read and answer, of all connections.
func working() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*connection).work(")
}

// One goroutine reads and answers a connection's requests while none waits; one that waits has
// somebody read in its place.
func TestWhoWaitsHasSomebodyRead(t *testing.T) {
	s := startServer(t, nil)
	before := working()
	c := s.dial()
	for id := range int32(100) {
		c.send(request(keyEcho, 0, id, nil))
		c.reply()
		if now := working() - before; now != 1 {
			t.Fatalf("%d goroutines answer after %d requests", now, id+1)
		}
	}
	c.send(request(keyWait, 0, 100, nil))
	<-s.handler.waiting
	c.send(request(keyEcho, 0, 101, nil)) // read ahead, and answered in its turn
	_ = c.Close()
	s.shutdown()
	if now := working() - before; now != 0 {
		t.Errorf("%d goroutines are left", now)
	}
}

// moody is a handler that waits for some requests and not for others, in ways in which handlers do.
type moody struct{ *testHandler }

func (m moody) Handle(ctx context.Context, req *Request) (Reply, error) {
	switch req.Body[0] % 4 {
	case 1:
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Microsecond):
		}
	case 2: // a child of the context asks for Done
		child, cancel := context.WithTimeout(ctx, 50*time.Microsecond)
		defer cancel()
		<-child.Done()
	case 3: // somebody asks when the request has been answered
		time.AfterFunc(50*time.Microsecond, func() { _ = ctx.Done() })
	}
	return Reply{Chunks: []Chunk{{Bytes: []byte{req.Body[0]}}}}, nil
}

// Replies keep their order and their content, whoever reads and answers. Most useful with -race.
func TestTurnsBetweenThoseWhoWaitAndThoseWhoDoNot(t *testing.T) {
	before := working()
	s := startServer(t, func(o *Options) { o.Handler = moody{newTestHandler()} })
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
	if now := working() - before; now != 0 {
		t.Errorf("%d goroutines are left", now)
	}
}

func TestRequestContextWaitsOnceAndNotTooLate(t *testing.T) {
	calls := 0
	early := &requestContext{Context: t.Context(), waits: func() { calls++ }}
	_, _ = early.Done(), early.Done()
	if calls != 1 || !early.hasWaited() {
		t.Errorf("%d calls", calls)
	}
	late := &requestContext{Context: t.Context(), waits: func() { calls++ }}
	if late.hasWaited() {
		t.Error("nobody has waited")
	}
	if _ = late.Done(); calls != 1 {
		t.Error("a request that was answered has somebody read")
	}
	if late.Done() == nil || late.Err() != nil {
		t.Error("it is not its parent's context")
	}
}
