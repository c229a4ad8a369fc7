package handler

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// mutatedAllocMax limits the bytes that handling a frame of at most controlFrameMax may allocate,
// including the response. Decoding 20,000 elements and responding to them takes about a third of
// the limit.
const mutatedAllocMax = 64 << 20

// socketBroker returns a broker and the path of a Unix socket. A server of package wire serves the
// broker on that socket. A Unix socket needs no port, and its two directions can be closed
// separately, as with TCP.
func socketBroker(t testing.TB) (b *broker, path string) {
	b = newBroker(t)
	b.topic("tickets", nil)
	path = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	must(t, err)
	server := wire.NewServer(wire.Options{Listener: listener, Handler: b.Handler, APIName: APIName})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b, path
}

// framed encodes a request as a client would: size, header and body.
func framed(b *broker, request kmsg.Request) []byte {
	frame := kbin.AppendInt16(make([]byte, 4), request.Key())
	frame = kbin.AppendInt16(frame, request.GetVersion())
	frame = kbin.AppendInt32(frame, 1)
	id := "mutant"
	frame = kbin.AppendNullableString(frame, &id)
	if b.Flexible(request.Key(), request.GetVersion()) {
		frame = append(frame, 0)
	}
	return sized(request.AppendTo(frame))
}

// sized writes a frame's size into its first four bytes.
func sized(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// captured returns frames with one request for each API and version, with random values in all
// fields, and with valid Produce and Fetch requests.
func captured(t testing.TB, b *broker) [][]byte {
	random := rand.New(rand.NewPCG(3, 0))
	var all [][]byte
	add := func(request kmsg.Request, version int16) {
		request.SetVersion(version)
		all = append(all, framed(b, request))
	}
	for _, row := range slices.Concat(table, refused) {
		for version := row.min; version <= row.max; version++ {
			request := kmsg.RequestForKey(row.key)
			fill(random, reflect.ValueOf(request).Elem(), 0)
			add(request, version)
		}
	}
	for version := int16(3); version <= 12; version++ {
		add(produceRequestFor("tickets", -1, batch(t, compress.LZ4, "a", "b")), version)
	}
	for version := int16(4); version <= 12; version++ {
		add(fetchRequestFor("tickets", 0), version)
	}
	return all
}

// exchange sends bytes, closes the sending direction, and reads until the broker closes the
// connection. Requests that wait end immediately, because the client has disconnected. exchange
// returns the number of bytes received.
func exchange(t *testing.T, path string, frame []byte) int64 {
	t.Helper()
	conn, err := net.Dial("unix", path)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	// Write fails if the broker has closed the connection after an invalid request.
	_, _ = conn.Write(frame)
	_ = conn.(*net.UnixConn).CloseWrite()
	n, err := io.Copy(io.Discard, conn)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the broker has not closed the connection after a minute, %d bytes: % x",
				len(frame),
				frame[:min(64, len(frame))])
		}
	}
	return n
}

// checkExchange is like exchange, but also checks that memory allocation stays below the limit. The
// limit does not apply to requests that create topics or partitions.
func checkExchange(t *testing.T, path string, frame []byte) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := exchange(t, path, frame)
	runtime.ReadMemStats(&after)
	creates := len(frame) >= 6 &&
		(frame[5] == byte(api.KeyCreateTopics) || frame[5] == byte(api.KeyCreatePartitions))
	if grown := after.TotalAlloc - before.TotalAlloc; grown > mutatedAllocMax+
		4*uint64(len(frame)) && !creates {
		t.Errorf("%d bytes allocated for a frame of %d: % x", grown, len(frame),
			frame[:min(64, len(frame))])
	}
	return n
}

// mutate returns a copy of a frame with a random change: it replaces a byte, truncates the frame,
// overwrites four bytes that may be a length, or inserts a tag section. It usually corrects the
// frame's size, so that the handler reads the body.
func mutate(random *rand.Rand, frame []byte) []byte {
	frame = append([]byte(nil), frame...)
	const head = 12 // size, key, version, correlation id
	for range 1 + random.IntN(4) {
		position := head + random.IntN(max(1, len(frame)-head))
		switch random.IntN(4) {
		case 0:
			frame[min(position, len(frame)-1)] = byte(random.Uint32())
		case 1:
			frame = frame[:max(head, min(position, len(frame)))]
		case 2:
			if position+4 <= len(frame) {
				binary.BigEndian.PutUint32(frame[position:],
					1<<31-1-uint32(random.IntN(3))<<random.IntN(30))
			}
		default:
			frame = append(frame[:min(position, len(frame))],
				append(append([]byte(nil), tagBomb...), frame[min(position, len(frame)):]...)...)
		}
	}
	if random.IntN(8) > 0 {
		return sized(frame)
	}
	return frame
}

// TestMutatedRequestsAreHandled is FuzzMutatedRequests with a fixed seed.
func TestMutatedRequestsAreHandled(t *testing.T) {
	b, path := socketBroker(t)
	const seed = 5
	random := rand.New(rand.NewPCG(seed, 0))
	all, answered := captured(t, b), 0
	for _, frame := range all {
		if checkExchange(t, path, frame) > 0 {
			answered++
		}
		for range 3 {
			checkExchange(t, path, mutate(random, frame))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if answered < len(all)/2 {
		t.Errorf("answered unchanged requests: got %d of %d, want at least half", answered,
			len(all))
	}
	// The broker must still handle valid requests.
	b.mustProduce("tickets", "after")
}

// FuzzMutatedRequests checks that the broker responds to arbitrary bytes or closes the connection,
// without a panic or a hang, and with limited memory.
func FuzzMutatedRequests(f *testing.F) {
	b, path := socketBroker(f)
	for i, frame := range captured(f, b) {
		f.Add(frame, uint64(i))
	}
	f.Fuzz(func(t *testing.T, frame []byte, seed uint64) {
		if len(frame) < 12 || len(frame) > controlFrameMax {
			exchange(t, path, frame)
			return
		}
		checkExchange(t, path, frame)
		checkExchange(t, path, mutate(rand.New(rand.NewPCG(seed, 0)), frame))
	})
}
