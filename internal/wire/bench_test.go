package wire

import (
	"context"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

// waitingHandler replies immediately or, if wait is set, after a short wait, like the broker to a
// produce request with acks=all.
type waitingHandler struct {
	*testHandler
	wait time.Duration
}

func (p waitingHandler) Handle(ctx context.Context, req *Request) (Reply, error) {
	if p.wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(p.wait):
		}
	}
	return Reply{Chunks: []Chunk{{Bytes: req.Body}}}, nil
}

// BenchmarkRequest measures the exchange of a request of 100 bytes and its reply on one loopback
// connection. The metric cpu-us/op is the user and system time of the whole process, including the
// client.
func BenchmarkRequest(b *testing.B) {
	for name, wait := range map[string]time.Duration{"answers at once": 0,
		"waits": 200 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := NewServer(Options{Listener: listener,
				Handler: waitingHandler{newTestHandler(), wait},
				Logger:  slog.New(slog.DiscardHandler)})
			ctx, stop := context.WithCancel(b.Context())
			served := make(chan error, 1)
			go func() { served <- s.Serve(ctx) }()
			defer func() {
				stop()
				if err := <-served; err != nil {
					b.Error(err)
				}
			}()
			exchange(b, listener.Addr().String())
		})
	}
}

// exchange sends requests one at a time, and reads each reply before it sends the next request.
func exchange(b *testing.B, address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw := request(keyEcho, 0, 1, make([]byte, 100))
	reply := make([]byte, 108)
	began := cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(raw); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/1e3/float64(b.N), "cpu-us/op")
}

// cpuTime returns the user and system time of the process.
func cpuTime(b *testing.B) time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano())
}
