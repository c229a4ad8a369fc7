package console_test

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/dev"
)

const manifests = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec: {brokers: 2, topicDefaults: {replicas: 2, minInSyncReplicas: 1}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: demo
  partitions: 2
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 10}
  segment: {size: 1Mi}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: events}
spec: {cluster: demo, cleanupPolicy: Delete}
`

// cluster is a development cluster that a test runs.
type cluster struct {
	t       *testing.T
	ready   map[string]string // the fields of the ready line
	console string            // URL
}

// startCluster runs heartwood dev in this process until the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	stopped := make(chan error, 1)
	go func() {
		stopped <- dev.Run(ctx, dev.Options{Manifests: []string{file}, Listen: "127.0.0.1:0",
			HTTP: "127.0.0.1:0", DataDir: filepath.Join(dir, "data"), Out: writer})
		_ = writer.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	c := &cluster{t: t, ready: map[string]string{}}
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "ready ")
		for field := range strings.FieldsSeq(rest) {
			key, value, _ := strings.Cut(field, "=")
			c.ready[key] = value
		}
		if ok {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if c.console = c.ready["console"]; c.console == "" {
		t.Fatal("the ready line names no console")
	}
	return c
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(strings.Split(c.ready["bootstrap"], ",")...))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// get returns the status and the body of a page of the console.
func (c *cluster) get(path string) (int, string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.console+path,
		http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// contains fails the test if a page lacks one of the texts.
func (c *cluster) contains(path string, texts ...string) string {
	c.t.Helper()
	status, body := c.get(path)
	if status != http.StatusOK {
		c.t.Fatalf("%s: got status %d: %s", path, status, body)
	}
	plain := html.UnescapeString(body)
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			c.t.Errorf("%s does not contain %q:\n%s", path, text, plain)
		}
	}
	return body
}

const hostile = `<script>alert("x")</script>` + "\x00\x1b[31m\u202e"

// TestPagesShowTheCluster opens each page of a cluster with records, a tombstone, and a consumer
// group.
func TestPagesShowTheCluster(t *testing.T) {
	c := startCluster(t)
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records := []*kgo.Record{
		{Topic: "tickets", Key: []byte("T-1"), Value: []byte("printer on fire")},
		{Topic: "tickets", Key: []byte("T-1"), Value: []byte("fire out"),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("abc")}}},
		{Topic: "tickets", Key: []byte("T-2"), Value: nil},
		{Topic: "tickets", Key: []byte(hostile), Value: []byte(hostile)},
		{Topic: "events", Key: nil, Value: []byte("\xff\xfe")},
		{Topic: "tickets", Key: []byte("big"), Value: []byte(strings.Repeat("v", 5000)), Partition: 1},
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("tickets", 0, 2, -1)
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "readers", offsets); err != nil {
		t.Fatal(err)
	}

	c.contains("", "Overview", "demo", "tickets", "Nothing: all partitions are served", "may clean")
	c.contains("topics", "tickets", "events", "not compacted", "Only the active segment is dirty")
	if body := c.contains("topics?search=TICK", "tickets"); strings.Contains(body, ">events<") {
		t.Error("the search found events")
	}
	c.contains("brokers", "up", "free of", "broker-1")
	c.contains("topic?name=tickets&tab=replicas", "leader", "in sync", "only the active segment")
	c.contains("topic?name=tickets&tab=settings", "min.cleanable.dirty.ratio", "0.1", "topic",
		"default", "delete.retention.ms")
	c.contains("topic?name=tickets&tab=groups", "readers", "Empty")
	c.contains("groups", "readers", "tickets")
	c.contains("group?name=readers", "Offsets", "tickets", "Lag: 2")
	c.contains("topic?name=tickets", "printer on fire", "superseded below", "fire out", "trace:",
		"tombstone: deletes the key", "found 5", "4.88 KiB")
	c.contains("topic?name=events", "no key", "ff fe", "found 1")
	for path, texts := range map[string][]string{
		"&latest=1":                              {"found 4", "hid 1 superseded one"},
		"&position=earliest&limit=2":             {"printer on fire", "Next"},
		"&position=offset&at=2&partition=0":      {"found 2", "tombstone"},
		"&position=time&at=2100-01-01":           {"found 0"},
		"&key=T-1&position=earliest":             {"found 2", "Looked at 5 records"},
		"&value=out":                             {"found 1"},
		"&position=offset&at=2":                  {"choose a partition"},
		"&position=time&at=yesterday":            {"is invalid"},
		"&partition=x":                           {"not a number"},
		"&cursor=x":                              {"The cursor is invalid"},
		"&position=earliest&cursor=0:4,1:1":      {"found 0"},
		"&position=latest&partition=0&limit=1":   {"found 1", "alert", "Older"},
		"&position=latest&cursor=0:1&fragment=1": {"printer on fire"},
	} {
		c.contains("topic?name=tickets"+path, texts...)
	}
	c.contains("message?topic=tickets&partition=1&offset=0", strings.Repeat("v", 5000))
	for path, want := range map[string]int{"message?topic=tickets&partition=0&offset=99": 404,
		"message?topic=tickets&partition=x&offset=0": 400, "topic?name=unknown": 404,
		"group?name=unknown": 404, "unknown": 404} {
		if got, _ := c.get(path); got != want {
			t.Errorf("%s: got status %d, want %d", path, got, want)
		}
	}
}

// TestBytesOfRecordsAreText: keys, values and headers that contain HTML or control characters do
// not reach the page as such.
func TestBytesOfRecordsAreText(t *testing.T) {
	c := startCluster(t)
	record := &kgo.Record{Topic: "events", Key: []byte(hostile), Value: []byte(hostile),
		Headers: []kgo.RecordHeader{{Key: hostile, Value: []byte(hostile)}}}
	if err := c.client().ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"topic?name=events", "message?topic=events&partition=0&offset=0",
		"topic?name=events&key=" + url.QueryEscape(hostile), "topic?name=" + url.QueryEscape(hostile),
		"topics?search=" + url.QueryEscape(hostile)} {
		_, body := c.get(path)
		if strings.Contains(body, "<script>alert") {
			t.Errorf("%s contains the record as HTML", path)
		}
		if strings.Contains(path, "name=events") && !strings.Contains(path, "key=") &&
			strings.ContainsAny(body, "\x1b\u202e") {
			t.Errorf("%s contains control characters of the record", path)
		}
	}
	c.contains("topic?name=events", `<script>alert("x")</script>␀␛[31m`)
}

// TestRootLeadsToTheConsole: a browser that opens the HTTP port finds the console.
func TestRootLeadsToTheConsole(t *testing.T) {
	c := startCluster(t)
	for path, accept := range map[string]string{"/": "text/html", "/console": "*/*"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			c.ready["http"]+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Request.URL.String(); got != c.console || response.StatusCode != 200 {
			t.Errorf("%s led to %s with status %d", path, got, response.StatusCode)
		}
	}
}
