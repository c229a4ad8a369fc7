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

// copyTrace records the memory ranges that were filled by reads from sockets, and those that were
// written to data files. If a file is written from memory that a socket read has filled, only the
// kernel has copied the bytes: once in each of the two system calls.
type copyTrace struct {
	mu            sync.Mutex
	read, written []span
}

// span is the memory range [from, to).
type span struct{ from, to uintptr }

func spanOf(p []byte) span {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	return span{from, from + uintptr(len(p))}
}

func (c *copyTrace) reads(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = append(c.read, spanOf(p))
}

func (c *copyTrace) writes(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written = append(c.written, spanOf(p))
}

// reset discards the recorded ranges, because their memory may be reused for other bytes.
func (c *copyTrace) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.written = nil, nil
}

// result returns the number of bytes written to files, and how many of these came from memory that
// no socket read had filled.
func (c *copyTrace) result() (written, elsewhere int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.written {
		written += int(w.to - w.from)
		for address := w.from; address < w.to; {
			next := address
			for _, r := range c.read {
				if r.from <= address && address < r.to {
					next = max(next, min(w.to, r.to))
				}
			}
			if next == address {
				elsewhere++
				next++
			}
			address = next
		}
	}
	return written, elsewhere
}

// tracedListener accepts connections and records their reads in a trace.
type tracedListener struct {
	net.Listener
	trace *copyTrace
}

func (l tracedListener) Accept() (net.Conn, error) {
	socket, err := l.Listener.Accept()
	return tracedSocket{socket, l.trace}, err
}

type tracedSocket struct {
	net.Conn
	trace *copyTrace
}

func (s tracedSocket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.trace.reads(p[:n])
	return n, err
}

// tracedDisk records the writes to data files in a trace. All code of the log store is above it.
type tracedDisk struct {
	vfs.FS
	trace *copyTrace
}

func (d tracedDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return tracedFile{file, d.trace}, nil
}

type tracedFile struct {
	vfs.File
	trace *copyTrace
}

func (f tracedFile) WriteAt(p []byte, offset int64) (int, error) {
	f.trace.writes(p)
	return f.File.WriteAt(p, offset)
}

// TestByteIsCopiedTwiceFromSocketToFile checks that the whole path of a produce request (package
// wire, the handler, replicas and logs) copies no batch in user space. It sends compressed and
// uncompressed batches on one connection, in requests that are smaller than, as large as, and
// larger than a pooled buffer.
func TestByteIsCopiedTwiceFromSocketToFile(t *testing.T) {
	const partitions = 5
	trace := &copyTrace{}
	b := newBrokerOn(t, tracedDisk{vfs.NewMem(), trace})
	b.topic("t", func(topic *metadata.Topic) {
		for len(topic.Partitions) < partitions {
			next := *topic.Partitions[0]
			next.Index = int32(len(topic.Partitions))
			topic.Partitions = append(topic.Partitions, &next)
		}
	})
	socket := dialTraced(t, b, trace)
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
		trace.reset()
		socket.produce(t, produceRequestFor("t", 1, batches...))
		written, elsewhere := trace.result()
		if written != sent || elsewhere != 0 {
			t.Errorf("%s: got %d bytes written, %d of them from other memory; want %d, 0", c.name,
				written, elsewhere, sent)
		}
	}
}

// rawClient is a connection without a client library.
type rawClient struct{ net.Conn }

// dialTraced serves the broker on the loopback interface and connects to it.
func dialTraced(t *testing.T, b *broker, trace *copyTrace) rawClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, wire.Options{Listener: tracedListener{listener, trace}, Handler: b.Handler})
	return dial(t, listener)
}

// serve runs a server until the test ends.
func serve(t *testing.T, opts wire.Options) {
	server := wire.NewServer(opts)
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context()) }()
	// Serve returns, because a test's context is canceled before its cleanups run.
	t.Cleanup(func() { must(t, <-served) })
}

func dial(t *testing.T, listener net.Listener) rawClient {
	t.Helper()
	socket, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return rawClient{socket}
}

// produce sends a Produce request in version 8, and fails the test if the response contains an
// error.
func (c rawClient) produce(t *testing.T, req *kmsg.ProduceRequest) {
	t.Helper()
	_, err := c.Write(frameOf(req))
	must(t, err)
	c.wantProduced(t)
}

// frameOf encodes a Produce request in version 8.
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

// wantProduced waits for a Produce response, and fails the test if it contains an error.
func (c rawClient) wantProduced(t *testing.T) {
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
