package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/test/kit/await"
)

func (s *testServer) peer() *Peer {
	s.t.Helper()
	p, err := DialPeer(s.t.Context(), &net.Dialer{}, s.opts.Listener.Addr().String(), "peer-7")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = p.Close() })
	return p
}

func echo(version int16, body []byte) Call {
	return Call{Key: keyEcho, Version: version, Flexible: version >= flexibleFrom,
		Append: func(b []byte) []byte { return append(b, body...) }}
}

// TestPeerExchangesRequests sends small and large requests on one connection, with both versions of
// the request header.
func TestPeerExchangesRequests(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	for _, version := range []int16{1, flexibleFrom} {
		for _, size := range []int{0, 1, 4000, 3*stepBytes + 5, 10} {
			body := bytes.Repeat([]byte{byte(size)}, size)
			got, err := p.Do(t.Context(), echo(version, body))
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("version %d: sent %d bytes, received %d, error %v", version, size,
					len(got), err)
			}
			if request := <-s.handler.got; request.ClientID != "peer-7" {
				t.Errorf("got client id %q, want peer-7", request.ClientID)
			}
		}
	}
}

// TestPeerStopsWaitingWhenItsContextEnds checks that Do returns the context's error when its
// context is canceled, and that the server's handler ends after the connection is closed.
func TestPeerStopsWaitingWhenItsContextEnds(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.handler.waiting
		cancel()
	}()
	_, err := p.Do(ctx, Call{Key: keyWait, Append: func(b []byte) []byte { return b }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-s.handler.released
}

// TestPeerCloseEndsAWait checks that Do returns when another goroutine closes the connection.
func TestPeerCloseEndsAWait(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	go func() {
		<-s.handler.waiting
		_ = p.Close()
	}()
	if _, err := p.Do(t.Context(),
		Call{Key: keyWait, Append: func(b []byte) []byte { return b }}); !errors.Is(err,
		net.ErrClosed) {
		t.Errorf("error %v, want net.ErrClosed", err)
	}
}

// TestPeerAbandonsAHungResponse sends a response that stops half-way or arrives slowly. If the
// context is canceled, Do must return soon, so that a follower can follow another leader. Otherwise
// it must read a slow response to its end, even after the deadline of its context.
func TestPeerAbandonsAHungResponse(t *testing.T) {
	const size = 2 * stepBytes
	for name, test := range map[string]struct {
		cancels bool
		// time in which each tenth of the response arrives; 0: the response stops half-way
		moves time.Duration
		least time.Duration
		most  time.Duration
		fails bool
	}{
		"hangs and is cancelled": {cancels: true, least: peerLinger, most: 2 * peerLinger,
			fails: true},
		"hangs": {least: peerStall, most: peerStall + peerLinger, fails: true},
		"progresses and is cancelled": {cancels: true, moves: peerLinger / 10,
			most: 2 * peerLinger},
		"progresses slowly": {moves: peerStall / 10, least: 15 * time.Second,
			most: peerStall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				p := &Peer{socket: ours}
				half := make(chan struct{})
				answer := binary.BigEndian.AppendUint32(nil, size)
				answer = append(answer, make([]byte, size)...)
				answer[7] = 1 // last byte of the correlation id
				go func() {
					_, _ = theirs.Read(make([]byte, 1000))
					_, _ = theirs.Write(answer[:size/2])
					close(half)
					for rest := answer[size/2:]; test.moves > 0 &&
						len(rest) > 0; rest = rest[min(len(rest), size/10):] {
						time.Sleep(test.moves)
						_, _ = theirs.Write(rest[:min(len(rest), size/10)])
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begin := time.Now()
				if test.cancels {
					go func() { <-half; cancel() }()
				}
				body, err := p.Do(ctx, Call{})
				if took := time.Since(begin); took < test.least || took > test.most ||
					(err != nil) != test.fails || !test.fails && len(body) != size-4 {
					t.Errorf("received %d bytes, error %v after %v", len(body), err, took)
				}
				_ = ours.Close()
				_ = theirs.Close()
			})
		})
	}
}

// TestInterruptDoesNotBlock checks that Interrupt returns soon even if the peer reads nothing;
// meanwhile it holds a lock that Do needs.
func TestInterruptDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := &Peer{socket: ours}
		failed := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), Call{})
			failed <- err
		}()
		_, _ = theirs.Read(make([]byte, 1000))
		synctest.Wait()
		begin := time.Now()
		p.Interrupt(Call{}) // blocks, because the peer does not read
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Interrupt took %v", took)
		}
		if err := <-failed; err == nil {
			t.Error("Do did not fail")
		}
		_ = theirs.Close()
	})
}

// TestPeerRejectsInvalidResponses checks that Do returns an error for each invalid response, and
// allocates little memory for it.
func TestPeerRejectsInvalidResponses(t *testing.T) {
	frame := func(size int32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(size)), rest...)
	}
	for name, answer := range map[string][]byte{
		"negative size":                     frame(-1),
		"huge":                              frame(1 << 30),
		"no correlation id":                 frame(2, 0, 0),
		"correlation id of another request": frame(4, 0, 0, 0, 9),
		"ends early":                        frame(100, 0, 0, 0, 1),
		"announces much and ends":           frame(peerResponseMax, 0, 0, 0, 1),
		"tags without an end":               frame(6, 0, 0, 0, 1, 1, 3),
		"closed without a byte":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			p := &Peer{socket: ours}
			go func() {
				buf := make([]byte, 1000)
				_, _ = theirs.Read(buf)
				_, _ = theirs.Write(answer)
				_ = theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := p.Do(ctx,
				Call{Flexible: true, Append: func(b []byte) []byte { return b }}); err == nil {
				t.Error("the response was accepted")
			}
			if cap(p.in) > 2*stepBytes {
				t.Errorf("%d bytes were allocated", cap(p.in))
			}
		})
	}
}

// TestInterruptEndsTheWaitOfARequest interrupts a request while Do waits for its response, and
// twice before Do sends it. Each time, the handler must stop waiting, and the response to the
// interrupting request must be discarded.
func TestInterruptEndsTheWaitOfARequest(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	interrupt := echo(1, []byte("interrupt"))
	for i := range 3 {
		if i > 0 {
			p.Interrupt(interrupt) // before Do sends its request
		}
		ended := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), Call{Key: keyBehind})
			ended <- err
		}()
		select {
		case <-s.handler.waiting:
		case err := <-ended:
			t.Fatalf("the request ended before it waited: %v", err)
		}
		if i == 0 {
			p.Interrupt(interrupt)
			p.Interrupt(interrupt) // no effect, because the request is already interrupted
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(await.Limit):
			t.Fatal("the request was not interrupted")
		}
	}
	for range 3 {
		if got, err := p.Do(t.Context(), echo(1, []byte("after"))); err != nil ||
			string(got) != "after" {
			t.Errorf("received %q, error %v", got, err)
		}
	}
	if n := len(p.mu.unanswered); n != 0 {
		t.Errorf("unanswered interrupting requests: got %d, want none", n)
	}
}

// TestInterruptFromAnotherGoroutine calls Interrupt while another goroutine sends requests. Run
// with the race detector, it finds most concurrency bugs.
func TestInterruptFromAnotherGoroutine(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5000 { // the channels of testHandler can buffer twice as many
			if ctx.Err() != nil {
				return
			}
			p.Interrupt(echo(1, []byte("interrupt")))
			runtime.Gosched()
		}
	}()
	for i := range 300 {
		want := []byte{byte(i)}
		if got, err := p.Do(t.Context(), echo(1, want)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("received %v, error %v", got, err)
		}
	}
	cancel()
	<-done
}
