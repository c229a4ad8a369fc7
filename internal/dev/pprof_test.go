package dev

import (
	"net/http"
	"strings"
	"testing"
)

func TestProfilesOfDevRequirePprof(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		opts := options(t)
		opts.Pprof = enabled
		cluster := start(t, opts)
		status, body := cluster.get("/debug/pprof/goroutine?debug=1")
		if enabled && (status != http.StatusOK || !strings.Contains(body, "internal/broker")) {
			t.Errorf("with --pprof: got %d %s, want the goroutines of the broker", status, body)
		}
		if !enabled && status != http.StatusNotFound {
			t.Errorf("without --pprof: got status %d, want 404", status)
		}
		cluster.stop()
	}
}

func TestLoopbackAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "host:1": false,
	} {
		a, err := parseAddress("http", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.loopback(); got != want {
			t.Errorf("%s: got loopback %t, want %t", text, got, want)
		}
	}
}
