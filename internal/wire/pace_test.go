package wire

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// writeAtPace writes a frame in pieces of the given size, with a pause after each piece.
func writeAtPace(conn net.Conn, frame []byte, size int, pause time.Duration) {
	for ; len(frame) > 0; time.Sleep(pause) {
		n := min(size, len(frame))
		if _, err := conn.Write(frame[:n]); err != nil {
			return
		}
		frame = frame[n:]
	}
	_ = conn.Close()
}

// TestSlowFramesAreReadAndStalledOnesClosed sends large frames at different rates while no other
// frame waits. A frame must be read if at least 1 MiB arrives in each Options.Stall, however long
// the whole frame takes. At a lower rate, the connection must be closed.
func TestSlowFramesAreReadAndStalledOnesClosed(t *testing.T) {
	for name, test := range map[string]struct {
		piece int
		pause time.Duration
		taken bool
	}{
		"a MiB each 20 s":       {1 << 20, 20 * time.Second, true},
		"half of one each 20 s": {1 << 19, 20 * time.Second, false},
		"nothing more":          {1 << 22, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				s := NewServer(Options{Handler: newTestHandler()})
				body := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
				var writer sync.WaitGroup
				writer.Go(func() {
					writeAtPace(there, request(keyEcho, 0, 1, body), test.piece,
						test.pause)
				})
				defer writer.Wait()
				defer here.Close()
				c := newConnection(s, here)
				f, err := c.readFrame(t.Context(), here)
				if (err == nil) != test.taken {
					t.Fatalf("read: %v", err)
				}
				if err == nil && !bytes.HasSuffix(f.rest, body) {
					t.Error("the frame differs from what was sent")
				}
				if !s.large.TryAcquire(s.opts.LargeBytesMax) && err != nil {
					t.Error("the frame was abandoned and its budget is still held")
				}
			})
		})
	}
}

// TestSlowFramesAreClosedUnderContention checks that largePace is enforced. Three frames of 9 MiB
// arrive at a rate of 1 MiB per 20 s, and a frame of 2 MiB waits for the budget. The three frames
// must be rejected one after the other, and the frame of 2 MiB must be read.
func TestSlowFramesAreClosedUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Handler: newTestHandler(), LargeBytesMax: 10 << 20})
		var all sync.WaitGroup
		defer all.Wait()
		body := make([]byte, 9<<20)
		read := func(body []byte, piece int) error {
			here, there := net.Pipe()
			all.Go(func() {
				writeAtPace(there, request(keyEcho, 0, 1, body), piece,
					20*time.Second)
			})
			defer here.Close()
			f, err := newConnection(s, here).readFrame(t.Context(), here)
			if err == nil {
				f.release()
			}
			return err
		}
		for range 3 {
			all.Go(func() {
				var rejected *rejectedError
				if err := read(body, 1<<20); !errors.As(err, &rejected) ||
					rejected.reason != rejectSlow {
					t.Errorf("slow frame: error %v, want reason %s", err, rejectSlow)
				}
			})
			synctest.Wait() // so that the frames acquire the budget in this order
		}
		begin := time.Now()
		if err := read(body[:2<<20], 2<<20); err != nil {
			t.Errorf("small frame: %v", err)
		}
		// A frame of 9 MiB is rejected after 30 s, plus one second per MiB, plus the 20 s of the step in
		// progress.
		if took := time.Since(begin); took > 3*(30+9+20)*time.Second+20*time.Second {
			t.Errorf("the small frame waited %v, want at most 3 times 59 s and 20 s", took)
		}
	})
}

// TestLargeFramesAreNotReadAhead sends a frame of 64 MiB behind a waiting request. The frame must
// be neither read nor charged to the budget. Frames on another connection must be read and get
// replies.
func TestLargeFramesAreNotReadAhead(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyWait, 0, 1, nil))
	<-s.handler.waiting
	// more than the socket buffers can hold
	go func() { _, _ = c.Write(request(keyEcho, 0, 2, make([]byte, 64<<20))) }()
	other := s.dial()
	other.send(request(keyEcho, 0, 3, make([]byte, 2<<20)))
	other.send(request(keyEcho, 0, 4, nil)) // gets its reply after request 3
	for _, want := range []int32{3, 4} {
		if id, _ := other.reply(); id != want {
			t.Errorf("got a reply to request %d, want %d", id, want)
		}
	}
	if !s.large.TryAcquire(s.opts.LargeBytesMax) {
		t.Error("a frame that is not read yet holds budget")
	} else {
		s.large.Release(s.opts.LargeBytesMax)
	}
	s.shutdown()
	if id, body := c.reply(); id != 1 || string(body) != "woken" {
		t.Errorf("reply %d %q", id, body)
	}
}

// TestReleasedRequestHoldsNoBudget sends many requests that release their bodies and then wait.
// Together they exceed the budget, but all of them must be read, because a released body is not
// charged.
func TestReleasedRequestHoldsNoBudget(t *testing.T) {
	s := startServer(t, func(o *Options) { o.LargeBytesMax = 3 << 20 })
	const requests = 20
	for i := range int32(requests) {
		s.dial().send(request(keyDrop, 0, i, make([]byte, 2<<20)))
		<-s.handler.waiting
	}
	if !s.large.TryAcquire(s.opts.LargeBytesMax) {
		t.Error("waiting requests hold budget")
	}
	s.large.Release(s.opts.LargeBytesMax)
}

// copyMeter is a connection that records the maximum number of copied bytes that the sender held
// during any write.
type copyMeter struct {
	net.Conn
	sender *sender
	most   int
	bytes  bytes.Buffer
}

func (h *copyMeter) Write(p []byte) (int, error) {
	h.most = max(h.most, h.sender.copied)
	return h.bytes.Write(p)
}

// TestManySmallRangesAreWrittenInSteps sends a thousand small file ranges, as in a fetch of many
// partitions. The sender must never hold much more than gatherBytesMax copied bytes.
func TestManySmallRangesAreWrittenInSteps(t *testing.T) {
	file, content := fileOf(t, vfs.NewMem(), copyBytesMax)
	var reply Reply
	for range 1000 {
		reply.Chunks = append(reply.Chunks, Chunk{Bytes: []byte("|")},
			Chunk{File: file, Length: copyBytesMax})
	}
	conn := &copyMeter{}
	s := newSender(conn)
	conn.sender = &s
	if err := s.send(1, &reply, func() {}); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat(append([]byte("|"), content...),
		1000); !bytes.Equal(conn.bytes.Bytes()[8:], want) {
		t.Error("the reply differs from its chunks")
	}
	if conn.most > gatherBytesMax+copyBytesMax {
		t.Errorf("got %d copied bytes at one time, want at most %d", conn.most,
			gatherBytesMax+copyBytesMax)
	}
}
