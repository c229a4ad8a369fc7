package access

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/await"
)

// TestOneAddressCannotOccupyThePort opens addressConnectionsMax idle connections from one address.
// Requests from another address must still be served. After the connections are closed, requests
// from the first address must be served again.
func TestOneAddressCannotOccupyThePort(t *testing.T) {
	var config net.ListenConfig
	inner, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	limited := Limit(inner)
	served := make(chan error, 1)
	go func() { served <- server.Serve(limited) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	var idle []net.Conn
	for range addressConnectionsMax {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	excess, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = excess.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := excess.Read(make([]byte, 1)); err == nil || errors.Is(err,
		os.ErrDeadlineExceeded) {
		t.Errorf("a connection above the limit is open: %v", err)
	}
	get := func(from string) error {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+inner.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		return errors.Join(err, response.Body.Close())
	}
	if err := get("127.0.0.2"); err != nil {
		t.Errorf("another address: %v", err)
	}
	if get("127.0.0.1") == nil {
		t.Error("the first address is served above the limit")
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	await.Until(t, "the first address is served after its connections were closed", func() bool {
		return get("127.0.0.1") == nil
	})
}
