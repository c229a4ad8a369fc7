package handler

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
)

// journey notes which memory a request's bytes pass through: what the socket was read into, and
// what the data files were written from. Where both are the same memory, a byte was copied twice,
// by the kernel both times, and never in between; where they differ, somebody copied it a third
// time.
type journey struct {
	mu            sync.Mutex
	read, written []span
}

// span is a range of memory, [from, to).
type span struct{ from, to uintptr }

func spanOf(p []byte) span {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	return span{from, from + uintptr(len(p))}
}

func (j *journey) reads(p []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.read = append(j.read, spanOf(p))
}
func (j *journey) writes(p []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written = append(j.written, spanOf(p))
}

// begin forgets the journeys before: their memory may be in use for something else by now.
func (j *journey) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.read, j.written = nil, nil
}

// end returns how many bytes were written, and how many of them from memory that the socket was not
// read into.
func (j *journey) end() (written, elsewhere int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.written {
		written += int(w.to - w.from)
		for at := w.from; at < w.to; {
			next := at
			for _, r := range j.read {
				if r.from <= at && at < r.to {
					next = max(next, min(w.to, r.to))
				}
			}
			if next == at {
				elsewhere++
				next++
			}
			at = next
		}
	}
	return written, elsewhere
}

// watchedListener and watchedSocket note reads.
type watchedListener struct {
	net.Listener
	journey *journey
}

func (l watchedListener) Accept() (net.Conn, error) {
	socket, err := l.Listener.Accept()
	return watchedSocket{socket, l.journey}, err
}

type watchedSocket struct {
	net.Conn
	journey *journey
}

func (s watchedSocket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.journey.reads(p[:n])
	return n, err
}

// watchedDisk and watchedFile note writes of data files. It is the lowest disk: all that the log
// store puts over it is passed.
type watchedDisk struct {
	vfs.FS
	journey *journey
}

func (d watchedDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return watchedFile{file, d.journey}, nil
}

type watchedFile struct {
	vfs.File
	journey *journey
}

func (f watchedFile) WriteAt(p []byte, offset int64) (int, error) {
	f.journey.writes(p)
	return f.File.WriteAt(p, offset)
}

// TestAByteIsCopiedTwiceFromSocketToFile runs the whole way: a listener of package wire, this
// handler, replicas, logs. Requests are small, as large as a pooled buffer, and larger; batches
// compressed and not; connections used before and new.
func TestAByteIsCopiedTwiceFromSocketToFile(t *testing.T) {
	const partitions = 5
	seen := &journey{}
	b := newBrokerOn(t, watchedDisk{vfs.NewMem(), seen})
	b.topic("t", func(topic *metadata.Topic) {
		for len(topic.Partitions) < partitions {
			next := *topic.Partitions[0]
			next.Index = int32(len(topic.Partitions))
			topic.Partitions = append(topic.Partitions, &next)
		}
	})
	socket := dialWatched(t, b, seen)
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name       string
		codec      compress.Codec
		valueBytes int
		batches    int
	}{
		{"one small record", compress.None, 100, 1},
		{"a batch of a producer", compress.None, 16 << 10, 1},
		{"compressed by its producer", compress.LZ4, 64 << 10, 1},
		{"small after large", compress.None, 10, 1},
		{"the largest batch", compress.None, 1<<20 - 200, 1},
		{"a request larger than the pool's buffers", compress.None, 1<<20 - 200, partitions},
	} {
		value := make([]byte, c.valueBytes)
		for i := range value {
			value[i] = byte('a' + random.IntN(26))
		}
		var batches [][]byte
		sent := 0
		for range c.batches {
			batches = append(batches, batch(t, c.codec, string(value)))
			sent += len(batches[len(batches)-1])
		}
		seen.begin()
		socket.produce(t, produceRequestFor("t", 1, batches...))
		written, elsewhere := seen.end()
		if written != sent || elsewhere != 0 {
			t.Errorf("%s: %d bytes sent, %d written, %d of them copied a third time", c.name, sent,
				written, elsewhere)
		}
	}
}

// watchedClient speaks the protocol by hand.
type watchedClient struct{ net.Conn }

// dialWatched serves the broker on loopback and connects to it.
func dialWatched(t *testing.T, b *broker, seen *journey) watchedClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, wire.Options{Listener: watchedListener{listener, seen}, Handler: b.Handler})
	return dial(t, listener)
}

// serve runs a server until the test ends.
func serve(t *testing.T, opts wire.Options) {
	server := wire.NewServer(opts)
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context()) }()
	t.Cleanup(func() { must(t, <-served) }) // the test's context ends before its cleanups
}

func dial(t *testing.T, listener net.Listener) watchedClient {
	t.Helper()
	socket, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return watchedClient{socket}
}

// produce sends a request of version 8, waits for the answer and fails on any error in it.
func (c watchedClient) produce(t *testing.T, req *kmsg.ProduceRequest) {
	t.Helper()
	_, err := c.Write(frameOf(req))
	must(t, err)
	c.wantProduced(t)
}

// frameOf encodes a request of version 8.
func frameOf(req *kmsg.ProduceRequest) []byte {
	req.SetVersion(8)
	frame := make([]byte, 4)
	frame = kbin.AppendInt16(frame, req.Key())
	frame = kbin.AppendInt16(frame, req.Version)
	frame = kbin.AppendInt32(frame, 7)
	frame = kbin.AppendNullableString(frame, nil)
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// wantProduced waits for an answer and fails on any error in it.
func (c watchedClient) wantProduced(t *testing.T) {
	t.Helper()
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	must(t, err)
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c, answer)
	must(t, err)
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(8)
	must(t, response.ReadFrom(answer[4:]))
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("partition %d: error %d", p.Partition, p.ErrorCode)
			}
		}
	}
}
