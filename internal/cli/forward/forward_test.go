package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/podforward"
)

// echo starts a TCP server that sends back what it receives, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func pods(t *testing.T, server *podforward.Server) *Pods {
	t.Helper()
	p := New(&rest.Config{Host: server.URL}, "logs")
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// exchange sends a text over a connection and reads it back.
func exchange(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	go func() { _, _ = io.WriteString(conn, text) }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Errorf("read %d bytes, error %v, want what was sent", len(got), err)
	}
}

// TestConnectionsOfAPodShareALink checks that many concurrent connections to a pod use one link.
// Data on one connection must not appear on another one.
func TestConnectionsOfAPodShareALink(t *testing.T) {
	server := podforward.Start(t, nil)
	server.Forward("main-broker-0", 9092, echo(t))
	p := pods(t, server)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			conn, err := p.Dial(t.Context(), "main-broker-0", 9092)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			exchange(t, conn, strings.Repeat(string(rune('a'+i)), 300_000))
		})
	}
	all.Wait()
	if server.Dials() != 1 {
		t.Errorf("%d links, want 1", server.Dials())
	}
}

func TestRefusedPortIsReported(t *testing.T) {
	server := podforward.Start(t, nil)
	server.Forward("main-broker-0", 9092, echo(t))
	p := pods(t, server)
	conn, err := p.Dial(t.Context(), "main-broker-0", 9999)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil ||
		!strings.Contains(err.Error(), "failed to connect to port 9999") {
		t.Errorf("read: %v, want the message of the kubelet", err)
	}
	conn, err = p.Dial(t.Context(), "main-broker-0", 9092)
	if err != nil {
		t.Fatalf("after a refused port: %v", err)
	}
	exchange(t, conn, "still")
}

// TestDeadlinesAreSupported checks that connections support deadlines, because Kafka clients limit
// each request with deadlines.
func TestDeadlinesAreSupported(t *testing.T) {
	server := podforward.Start(t, nil)
	server.Forward("p", 1, echo(t))
	conn, err := pods(t, server).Dial(t.Context(), "p", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read: %v, want a timeout", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	exchange(t, conn, "later")
}

func TestLinkIsReplacedAfterItsEnd(t *testing.T) {
	server := podforward.Start(t, nil)
	server.Forward("p", 1, echo(t))
	p := pods(t, server)
	first, err := p.Dial(t.Context(), "p", 1)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	old := p.mu.links["p"]
	p.mu.Unlock()
	if err := old.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("read from a closed link succeeded")
	}
	await.Until(t, "the closed link has ended", old.ended)
	second, err := p.Dial(t.Context(), "p", 1)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, second, "again")
	if server.Dials() != 2 {
		t.Errorf("%d links, want 2", server.Dials())
	}
}

func TestDialFails(t *testing.T) {
	server := podforward.Start(t, nil)
	p := pods(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dial(ctx, "p", 1); err == nil {
		t.Log("the link was ready before the context was read")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Dial(t.Context(), "p", 1); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	refusing := New(&rest.Config{Host: "127.0.0.1:1"}, "logs")
	if _, err := refusing.Dial(t.Context(), "p", 1); err == nil ||
		!strings.Contains(err.Error(), "connect to pod p") {
		t.Errorf("without an API server: %v", err)
	}
}
