package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"
)

func (s *testServer) peer() *Peer {
	s.t.Helper()
	p, err := DialPeer(s.t.Context(), s.opts.Listener.Addr().String(), "peer-7")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = p.Close() })
	return p
}

func echo(version int16, body []byte) Call {
	return Call{Key: keyEcho, Version: version, Flexible: version >= flexibleFrom, Append: func(b []byte) []byte { return append(b, body...) }}
}

// TestPeerTalksToTheServer: both header versions, small and large, one after the other on one connection.
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

// TestPeerStopsWaiting when ctx ends, and the server's handler with it, once the connection is closed.
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
	if _, err := p.Do(t.Context(), Call{Key: keyWait, Append: func(b []byte) []byte { return b }}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want that it was closed", err)
	}
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
			if _, err := p.Do(ctx, Call{Flexible: true, Append: func(b []byte) []byte { return b }}); err == nil {
				t.Error("taken for an answer")
			}
			if cap(p.in) > 2*stepBytes {
				t.Errorf("%d bytes were taken for it", cap(p.in))
			}
		})
	}
}

// TestANudgeIsSeenByTheRequestBefore it, and its answer by nobody: also of one that comes between two requests.
func TestANudgeIsSeenByTheRequestBefore(t *testing.T) {
	s := startServer(t, nil)
	p := s.peer()
	nudge := echo(1, []byte("nudge"))
	for i := range 3 {
		if i > 0 {
			p.Nudge(nudge) // for the one that follows
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
			p.Nudge(nudge)
			p.Nudge(nudge) // once is enough
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
		if got, err := p.Do(t.Context(), echo(1, []byte("after"))); err != nil || string(got) != "after" {
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
			p.Nudge(echo(1, []byte("nudge")))
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
