package httpport

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestProfilesAreServedOnlyWithPprof(t *testing.T) {
	paths := []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine",
		"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/cmdline",
		"/debug/pprof/symbol"}
	for _, enabled := range []bool{false, true} {
		handler := New(Options{Gatherer: prometheus.NewRegistry(), Pprof: enabled})
		for _, path := range paths {
			want := http.StatusNotFound
			if enabled {
				want = http.StatusOK
			}
			if r := get(t, handler, "GET", path); r.Code != want {
				t.Errorf("GET %s with pprof=%t: got status %d, want %d", path, enabled, r.Code, want)
			}
		}
	}
}

// TestProfilesAreReadable checks that a profile is a gzip stream, as go tool pprof expects, and
// that it contains functions of this test.
func TestProfilesAreReadable(t *testing.T) {
	handler := New(Options{Gatherer: prometheus.NewRegistry(), Pprof: true})
	heap := get(t, handler, "GET", "/debug/pprof/heap")
	reader, err := gzip.NewReader(bytes.NewReader(heap.Body.Bytes()))
	if err != nil {
		t.Fatalf("decompress heap profile: %v", err)
	}
	if content, err := io.ReadAll(reader); err != nil || !bytes.Contains(content,
		[]byte("inuse_space")) {
		t.Errorf("the heap profile has %d bytes and no sample type inuse_space: %v", len(content),
			err)
	}
	stacks := get(t, handler, "GET", "/debug/pprof/goroutine?debug=1")
	if !strings.Contains(stacks.Body.String(), "TestProfilesAreReadable") {
		t.Errorf("the goroutine profile lacks this test: %s", stacks.Body)
	}
}
