package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/dev"
)

// broker starts a cluster with one broker and topic t, and returns the broker's address. The
// cluster stops when the test ends.
func broker(t *testing.T) string {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "t.yaml")
	content := "apiVersion: heartwood.dev/v1alpha1\nkind: Topic\nmetadata: {name: t}\n" +
		"spec: {cluster: dev, cleanupPolicy: Compact}\n"
	if err := os.WriteFile(manifest, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lines, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := dev.Run(ctx, dev.Options{
			Manifests: []string{manifest}, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
			DataDir: filepath.Join(t.TempDir(), "data"),
			Out:     out, Logger: slog.New(slog.DiscardHandler),
		})
		_ = out.CloseWithError(err) // never fails
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, lines) }()
		<-ended
	})
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if rest, ready := strings.CutPrefix(scanner.Text(), "ready "); ready {
			_, rest, _ = strings.Cut(rest, "bootstrap=")
			address, _, _ := strings.Cut(rest, " ")
			return address
		}
	}
	t.Fatal("the cluster stopped before it was ready")
	return ""
}

func TestLatenciesAreMeasuredUntilTheCommandCompletes(t *testing.T) {
	o := options{broker: broker(t), topic: "t", keys: 10, size: 10, rate: 200,
		command: []string{"sleep", "0.5"}}
	measured, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if measured.Records < 1 || measured.Seconds < 0.4 {
		t.Errorf("got %+v, want records over about half a second", measured)
	}
	if measured.P50 > measured.P99 || measured.P99 > measured.Max {
		t.Errorf("got %+v, want ascending percentiles", measured)
	}
	if measured.Max <= 0 {
		t.Errorf("got maximum %v, want a positive one", measured.Max)
	}

	o.command = []string{"false"}
	if _, err := run(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(), "false: exit status 1") {
		t.Errorf("failing command: got error %v, want its exit status", err)
	}
	o.command, o.records, o.rate = nil, 100, 0
	if measured, err = run(t.Context(), o); err != nil || measured.Records != 100 {
		t.Errorf("without a rate: got %+v, %v; want 100 records", measured, err)
	}
}

func TestPercentiles(t *testing.T) {
	s := sender{}
	for i := range 1000 {
		s.acked(time.Duration(1000-i)*time.Millisecond, nil)
	}
	r := s.result(time.Second)
	if r.P50 != 501 || r.P99 != 991 {
		t.Errorf("got P50 %v and P99 %v, want 501 and 991", r.P50, r.P99)
	}
	if r.P999 != 1000 || r.Max != 1000 {
		t.Errorf("got P999 %v and maximum %v, want 1000", r.P999, r.Max)
	}
	if r.Records != 1000 {
		t.Errorf("got %d records, want 1000", r.Records)
	}
	if r := (&sender{}).result(0); r != (result{}) {
		t.Errorf("without records: got %+v, want zero values", r)
	}
}

func TestInvalidFlagsAreRejected(t *testing.T) {
	for name, o := range map[string]options{
		"no topic": {keys: 1, size: 1, rate: 1, records: 1},
		"no end":   {topic: "t", keys: 1, size: 1, rate: 1},
		"two ends": {topic: "t", keys: 1, size: 1, rate: 1, records: 1,
			command: []string{"true"}},
		"command, no rate": {topic: "t", keys: 1, size: 1, command: []string{"true"}},
		"no key":           {topic: "t", size: 1, rate: 1, records: 1},
		"negative rate":    {topic: "t", keys: 1, size: 1, rate: -1, records: 1},
	} {
		if _, err := run(t.Context(), o); err == nil ||
			!strings.Contains(err.Error(), "need -topic") {
			t.Errorf("%s: got error %v, want one about the flags", name, err)
		}
	}
}
