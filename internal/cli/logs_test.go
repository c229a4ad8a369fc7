package cli

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// logServer returns a session with an API server whose pods have a sidecar. The server refuses
// requests for logs without a container name.
func logServer(t *testing.T, logs map[string]string) *session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		container := r.URL.Query().Get("container")
		text, found := logs[r.URL.Path+" "+container]
		switch {
		case container == "":
			http.Error(w, "a container name must be specified", http.StatusBadRequest)
		case !found || r.URL.Query().Get("previous") == "true":
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	t.Cleanup(server.Close)
	return &session{flags: &flags{namespace: "here"}, config: &rest.Config{Host: server.URL}}
}

// logOf is the key for broker 0's log in logServer.
const logOf = "/api/v1/namespaces/here/pods/main-broker-0/log broker"

func oneBroker() *v1alpha1.LogCluster {
	return &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}}
}

// collected returns the files that add writes to a report, and the list of missing files.
func collected(t *testing.T, add func(a *archive)) (files map[string]string, missing []string) {
	t.Helper()
	var content bytes.Buffer
	a := &archive{zip: zip.NewWriter(&content), now: time.Now()}
	add(a)
	if a.err != nil {
		t.Fatal(a.err)
	}
	if err := a.zip.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := zip.NewReader(bytes.NewReader(content.Bytes()), int64(content.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return unzipped(t, written), a.faults
}

func TestLogsOfPodsWithASidecar(t *testing.T) {
	s := logServer(t, map[string]string{logOf: "started\n"})
	var out bytes.Buffer
	s.out = &out
	l := &logsFlags{last: 10}
	if err := l.copyAll(t.Context(), s, oneBroker(), []int32{0}); err != nil ||
		out.String() != "[0] started\n" {
		t.Errorf("logs: %q, %v", out.String(), err)
	}
	files, missing := collected(t, func(a *archive) { s.collectLogs(t.Context(), a, oneBroker()) })
	if files["logs/main-broker-0.log"] != "started\n" || len(missing) > 0 {
		t.Errorf("report: %v, missing %v", files, missing)
	}
}

// TestReportContainsTheNewestLines checks that a report contains only the newest lines of a log
// that is too large, and mentions that.
func TestReportContainsTheNewestLines(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	s := logServer(t, map[string]string{logOf: "oldest\n" + strings.Repeat(line, logBytesMax/1024) +
		"newest\n"})
	files, missing := collected(t, func(a *archive) { s.collectLogs(t.Context(), a, oneBroker()) })
	content := files["logs/main-broker-0.log"]
	if !strings.HasSuffix(content, "newest\n") || strings.Contains(content, "oldest") ||
		!strings.HasPrefix(content, line) || len(content) > logBytesMax {
		t.Errorf("a log of %d bytes that begins with %.10q", len(content), content)
	}
	if len(missing) != 1 || !strings.Contains(missing[0], "logs/main-broker-0.log: truncated") {
		t.Errorf("missing %v", missing)
	}
}

// TestTailKeepsTheLastLines checks that the last lines are kept, however the text is split into
// writes.
func TestTailKeepsTheLastLines(t *testing.T) {
	for _, c := range []struct{ limit, want int }{{8, 1}, {9, 2}, {12, 2}, {13, 3}, {15, 3}, {16, 4},
		{99, 4}} {
		for size := 1; size <= 16; size++ {
			text := []byte("abc\ndef\nghi\njkl\n")
			kept := &tail{limit: c.limit}
			for part := range slices.Chunk(text, size) {
				_, _ = kept.Write(part)
			}
			got := kept.bytes()
			if want := text[len(text)-4*c.want:]; !bytes.Equal(got, want) || kept.lines != 4 ||
				kept.dropped != (c.want < 4) {
				t.Errorf("limit %d, writes of %d bytes: %q, dropped %t", c.limit, size, got, kept.dropped)
			}
		}
	}
}
