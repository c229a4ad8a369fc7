package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/certs"
)

// TestConsoleServesHTTPS checks that the console serves HTTPS, and uses a new certificate when its
// file is replaced.
func TestConsoleServesHTTPS(t *testing.T) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	replace := func() *certs.CA {
		ca := certs.New(t, "console CA")
		chain, private := certs.KeyPEM(t, ca.Server("localhost"))
		for path, content := range map[string][]byte{certificate: chain, key: private} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return ca
	}
	ca := replace()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"console", "--http", "127.0.0.1:0", "--address", "127.0.0.1:1",
			"--tls-cert", certificate, "--tls-key", key}, writer, io.Discard)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "ready console=https://127.0.0.1:")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	get := func(ca *certs.CA) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://localhost:"+address+"assets/console.css", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}}
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	if err := get(ca); err != nil {
		t.Error(err)
	}
	later := replace()
	if err := get(later); err != nil {
		t.Errorf("after the certificate was replaced: %v", err)
	}
	if get(ca) == nil {
		t.Error("the old certificate is still used")
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
