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

// patient is a handler whose requests wait for a moment, as an acks=all produce waits for
// followers, or do not.
type patient struct {
	*testHandler
	wait time.Duration
}

func (p patient) Handle(ctx context.Context, req *Request) (Reply, error) {
	if p.wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(p.wait):
		}
	}
	return Reply{Chunks: []Chunk{{Bytes: req.Body}}}, nil
}

// BenchmarkRequest is one connection's request and reply, of 100 bytes, over loopback. cpu-us/op is
// user and system time of the process, the client's half included.
func BenchmarkRequest(b *testing.B) {
	for name, wait := range map[string]time.Duration{"quick": 0, "waits": 200 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := NewServer(Options{Listener: listener, Handler: patient{newTestHandler(), wait},
				Logger: slog.New(slog.DiscardHandler)})
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

// exchange sends a request and reads its reply, again and again.
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

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano())
}
