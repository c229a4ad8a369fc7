package wire

import (
	"bytes"
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
				writer.Go(func() { writeAtPace(there, request(keyEcho, 0, 1, body), test.piece, test.pause) })
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
		reply.Chunks = append(reply.Chunks, Chunk{Bytes: []byte("|")}, Chunk{File: file, Length: copyBytesMax})
	}
	conn := &holdings{}
	s := newSender(conn)
	conn.sender = &s
	if err := s.send(1, &reply, func() {}); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat(append([]byte("|"), content...), 1000); !bytes.Equal(conn.bytes.Bytes()[8:], want) {
		t.Error("the reply is not what was to be sent")
	}
	if conn.most > gatherBytesMax+copyBytesMax {
		t.Errorf("%d bytes were held at once", conn.most)
	}
}
