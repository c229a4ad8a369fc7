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

// TestPeerTalksToTheServer: both header versions, small and large, one after the other on one
// connection.
func TestPeerTalksToTheServer(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	for _, version := range []int16{1, flexibleFrom} {
		for _, size := range []int{0, 1, 4000, 3*stepBytes + 5, 10} {
			body := bytes.Repeat([]byte{byte(size)}, size)
			got, err := p.Do(t.Context(), echo(version, body))
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("version %d: %d bytes came back as %d: %v", version, size, len(got), err)
			}
			if request := <-s.handler.got; request.ClientID != "peer-7" {
				t.Errorf("client id %q", request.ClientID)
			}
		}
	}
}

// TestPeerStopsWaiting when ctx ends, and the server's handler with it, once the connection is
// closed.
func TestPeerStopsWaiting(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.handler.waiting
		cancel()
	}()
	_, err := p.Do(ctx, Call{Key: keyWait, Append: func(b []byte) []byte { return b }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-s.handler.released
}

// TestPeerCloseEndsAWait from another goroutine.
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
		t.Errorf("%v, want that it was closed", err)
	}
}

// TestPeerDoesNotWaitForWhoHangs once nobody wants its answer: a node that lost its power half-way
// through one must not hold up who follows another leader by now. One that is slow, and whose
// answer is wanted, is waited for, also when its time was up long ago.
func TestPeerDoesNotWaitForWhoHangs(t *testing.T) {
	const size = 2 * stepBytes
	for name, test := range map[string]struct {
		cancels bool
		moves   time.Duration // so often a tenth of the answer comes; 0: it stands still half-way
		least   time.Duration
		most    time.Duration
		fails   bool
	}{
		"hangs, and nobody wants it": {cancels: true, least: peerLinger, most: 2 * peerLinger,
			fails: true},
		"hangs":                      {least: peerStall, most: peerStall + peerLinger, fails: true},
		"moves, and nobody wants it": {cancels: true, moves: peerLinger / 10, most: 2 * peerLinger},
		"moves slowly": {moves: peerStall / 10, least: 15 * time.Second,
			most: peerStall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				p := &Peer{socket: ours}
				half := make(chan struct{})
				answer := binary.BigEndian.AppendUint32(nil, size)
				answer = append(answer, make([]byte, size)...)
				answer[7] = 1 // the correlation id
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
					t.Errorf("%d bytes, %v after %v", len(body), err, took)
				}
				_ = ours.Close()
				_ = theirs.Close()
			})
		})
	}
}

// TestANudgeHoldsNobodyUp: who gives one holds what others wait for.
func TestANudgeHoldsNobodyUp(t *testing.T) {
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
		p.Interrupt(Call{}) // the other side reads nothing
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a nudge took %v", took)
		}
		if err := <-failed; err == nil {
			t.Error("who waits does so still")
		}
		_ = theirs.Close()
	})
}

// TestPeerRefusesWhatIsNoAnswer, without taking memory for it.
func TestPeerRefusesWhatIsNoAnswer(t *testing.T) {
	frame := func(size int32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(size)), rest...)
	}
	for name, answer := range map[string][]byte{
		"negative size":         frame(-1),
		"huge":                  frame(1 << 30),
		"no correlation id":     frame(2, 0, 0),
		"another's":             frame(4, 0, 0, 0, 9),
		"ends early":            frame(100, 0, 0, 0, 1),
		"promises and ends":     frame(peerResponseMax, 0, 0, 0, 1),
		"tags without an end":   frame(6, 0, 0, 0, 1, 1, 3),
		"nothing but the close": nil,
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
				t.Error("taken for an answer")
			}
			if cap(p.in) > 2*stepBytes {
				t.Errorf("%d bytes were taken for it", cap(p.in))
			}
		})
	}
}

// TestANudgeIsSeenByTheRequestBefore it, and its answer by nobody: also of one that comes between
// two requests.
func TestANudgeIsSeenByTheRequestBefore(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	nudge := echo(1, []byte("nudge"))
	for i := range 3 {
		if i > 0 {
			p.Interrupt(nudge) // for the one that follows
		}
		ended := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), Call{Key: keyBehind})
			ended <- err
		}()
		select {
		case <-s.handler.waiting:
		case err := <-ended:
			t.Fatalf("ended before it waited: %v", err)
		}
		if i == 0 {
			p.Interrupt(nudge)
			p.Interrupt(nudge) // once is enough
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the nudge was not seen")
		}
	}
	for range 3 {
		if got, err := p.Do(t.Context(), echo(1, []byte("after"))); err != nil ||
			string(got) != "after" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if n := len(p.mu.strays); n != 0 {
		t.Errorf("%d answers of nudges are awaited still", n)
	}
}

// TestNudgesFromEverywhere: with -race, whenever they come.
func TestNudgesFromEverywhere(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5000 { // the server remembers twice as many requests at most
			if ctx.Err() != nil {
				return
			}
			p.Interrupt(echo(1, []byte("nudge")))
			runtime.Gosched()
		}
	}()
	for i := range 300 {
		want := []byte{byte(i)}
		if got, err := p.Do(t.Context(), echo(1, want)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	cancel()
	<-done
}
