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

// writeAtPace writes a frame in pieces, with a pause after each.
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

// TestSlowFramesAreReadAndStalledOnesClosed checks that a large frame may take any time if 1 MiB of
// it arrives in each Stall.
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

// TestSlowFramesAreClosedUnderContention checks largePace: of three frames that arrive at 1 MiB in
// 20 s while a small one waits behind them, each is closed in turn, and the small one is read.
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
			synctest.Wait() // they acquire the budget in this order
		}
		begin := time.Now()
		if err := read(body[:2<<20], 2<<20); err != nil {
			t.Errorf("small frame: %v", err)
		}
		// Each frame has 30 s and a second for each MiB, and then the current step.
		if took := time.Since(begin); took > 3*(30+9+20)*time.Second+20*time.Second {
			t.Errorf("the small frame waited %v", took)
		}
	})
}

// TestLargeFramesAreNotReadAhead checks that a large frame behind a waiting request is not read and
// holds no budget, and that a small one is read.
func TestLargeFramesAreNotReadAhead(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyWait, 0, 1, nil))
	<-s.handler.waiting
	// more than socket buffers hold
	go func() { _, _ = c.Write(request(keyEcho, 0, 2, make([]byte, 64<<20))) }()
	other := s.dial()
	other.send(request(keyEcho, 0, 3, make([]byte, 2<<20)))
	other.send(request(keyEcho, 0, 4, nil)) // answered after the one before
	for _, want := range []int32{3, 4} {
		if id, _ := other.reply(); id != want {
			t.Errorf("reply to %d, want %d", id, want)
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

// TestReleasedRequestHoldsNoBudget checks that a request whose body was released holds no share of
// the budget while it waits.
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

// copyMeter is a connection that records the most bytes that a sender held copied at a write.
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

// TestManySmallRangesAreWrittenInSteps covers a fetch of thousands of partitions, which is
// thousands of small ranges.
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
		t.Errorf("%d bytes were held at one time", conn.most)
	}
}
