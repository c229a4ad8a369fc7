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

// writeAtPace writes a frame in pieces of a size, a pause after each.
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

// A large frame may take as long as it likes, if a MiB of it comes in each Stall.
func TestASlowFrameIsReadAndAStalledOneIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		piece int
		pause time.Duration
		taken bool
	}{
		"a MiB each 20 s":       {1 << 20, 20 * time.Second, true},
		"half of one each 20 s": {1 << 19, 20 * time.Second, false},
		"no more":               {1 << 22, time.Hour, false},
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
					t.Error("the frame is not what was sent")
				}
				if !s.large.TryAcquire(s.opts.LargeBytesMax) && err != nil {
					t.Error("the frame was given up, its budget was not")
				}
			})
		})
	}
}

// Once others wait for the memory that a slow frame holds, it has to come at largePace: three of
// them, each at a MiB in 20 s, are cut off one after the other, and the small one behind them is
// read.
func TestASlowFrameGivesWayToThoseWhoWait(t *testing.T) {
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
					t.Errorf("a slow frame: %v", err)
				}
			})
			synctest.Wait() // they wait in this order
		}
		begin := time.Now()
		if err := read(body[:2<<20], 2<<20); err != nil {
			t.Errorf("the frame behind them: %v", err)
		}
		// Each has 30 s and a second a MiB, and then the step it is in.
		if took := time.Since(begin); took > 3*(30+9+20)*time.Second+20*time.Second {
			t.Errorf("it waited %v", took)
		}
	})
}

// A large frame behind a request that waits is not read, and holds no budget; a small one is read,
// so that it is at hand.
func TestALargeFrameIsReadInItsTurn(t *testing.T) {
	s := startServer(t, nil)
	c := s.dial()
	c.send(request(keyWait, 0, 1, nil))
	<-s.handler.waiting
	// more than socket buffers hold
	go func() { _, _ = c.Write(request(keyEcho, 0, 2, make([]byte, 64<<20))) }()
	other := s.dial()
	other.send(request(keyEcho, 0, 3, make([]byte, 2<<20)))
	other.send(request(keyEcho, 0, 4, nil)) // it is answered once the one before is done with
	for _, want := range []int32{3, 4} {
		if id, _ := other.reply(); id != want {
			t.Errorf("reply to %d, want %d", id, want)
		}
	}
	if !s.large.TryAcquire(s.opts.LargeBytesMax) {
		t.Error("a frame that waits for its turn holds budget")
	} else {
		s.large.Release(s.opts.LargeBytesMax)
	}
	s.shutdown()
	if id, body := c.reply(); id != 1 || string(body) != "woken" {
		t.Errorf("reply %d %q", id, body)
	}
}

// A request that was given up has no share of the budget any more, however long it waits for its
// answer.
func TestADroppedRequestHoldsNoBudget(t *testing.T) {
	s := startServer(t, func(o *Options) { o.LargeBytesMax = 3 << 20 })
	const requests = 20
	for i := range int32(requests) {
		s.dial().send(request(keyDrop, 0, i, make([]byte, 2<<20)))
		<-s.handler.waiting
	}
	if !s.large.TryAcquire(s.opts.LargeBytesMax) {
		t.Error("requests that wait hold budget")
	}
	s.large.Release(s.opts.LargeBytesMax)
}

// holdings is a connection that notes how much a sender held copied at each write.
type holdings struct {
	net.Conn
	sender *sender
	most   int
	bytes  bytes.Buffer
}

func (h *holdings) Write(p []byte) (int, error) {
	h.most = max(h.most, h.sender.copied)
	return h.bytes.Write(p)
}

// A fetch of thousands of partitions is thousands of small ranges; they go out bit by bit.
func TestManySmallRangesDoNotPileUp(t *testing.T) {
	file, content := fileOf(t, vfs.NewMem(), copyBytesMax)
	var reply Reply
	for range 1000 {
		reply.Chunks = append(reply.Chunks, Chunk{Bytes: []byte("|")},
			Chunk{File: file, Length: copyBytesMax})
	}
	conn := &holdings{}
	s := newSender(conn)
	conn.sender = &s
	if err := s.send(1, &reply, func() {}); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat(append([]byte("|"), content...),
		1000); !bytes.Equal(conn.bytes.Bytes()[8:], want) {
		t.Error("the reply is not what was to be sent")
	}
	if conn.most > gatherBytesMax+copyBytesMax {
		t.Errorf("%d bytes were held at once", conn.most)
	}
}
