package main

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/test/kit/certs"
)

// pipes is a listener with connections in memory.
type pipes struct {
	accepted chan net.Conn
	closed   context.Context
	close    context.CancelFunc
}

func newPipes() *pipes {
	p := &pipes{accepted: make(chan net.Conn)}
	p.closed, p.close = context.WithCancel(context.Background())
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.accepted <- there
	return here
}

// TestSlowHTTPClientsAreEnded checks that slow clients lose their connections after the time limit.
// A client is slow if it does not complete its TLS handshake, a request's header or a request's
// body, or sends no further request.
func TestSlowHTTPClientsAreEnded(t *testing.T) {
	ca := certs.New(t, "ca")
	for name, c := range map[string]struct {
		sends string
		tls   bool
		after time.Duration
	}{
		"TLS handshake":   {"\x16", true, headerTimeout},
		"header":          {"GET /metrics HTTP/1.1\r\nHost: a\r\n", false, headerTimeout},
		"body":            {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na", false, readTimeout},
		"another request": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := httpServer{logger: slog.New(slog.DiscardHandler)}
				if c.tls {
					server.tls = &tls.Config{MinVersion: tls.VersionTLS12,
						Certificates: []tls.Certificate{ca.Server("broker")}}
				}
				listener := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- server.serveOn(ctx, listener, http.HandlerFunc(
						func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }))
				}()
				began, conn := time.Now(), listener.dial()
				if _, err := io.WriteString(conn, c.sends); err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadAll(conn) // reads until the server closes the connection
				if open := time.Since(began); open < c.after || open > c.after+time.Second {
					t.Errorf("the connection was open for %v, want %v", open, c.after)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
