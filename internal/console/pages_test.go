package console_test

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/dev"
	"heartwood.dev/heartwood/test/kit/await"
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
	t       testing.TB
	ready   map[string]string // fields of the line that reports a ready cluster
	console string            // URL of the console
}

// startCluster runs heartwood dev in this process until the test ends.
func startCluster(t testing.TB) *cluster {
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

// get requests a page of the console, and returns its status and body.
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

// partial reports whether a page is incomplete because a broker was slow or is still starting. This
// happens on a busy machine.
func partial(status int, body string) bool {
	return status == http.StatusServiceUnavailable ||
		slices.ContainsFunc([]string{": no response. This page lacks", "partitions without a report",
			"did not respond", "Stopped after 3 seconds", "No report", "No broker responds",
			"context deadline exceeded", "about to serve"},
			func(words string) bool { return strings.Contains(body, words) })
}

// contains fails the test if a page lacks one of the texts. It requests a partial page again.
func (c *cluster) contains(path string, texts ...string) string {
	c.t.Helper()
	return c.containsWith(http.StatusOK, path, texts...)
}

// containsWith fails the test if a page has another status than want, or lacks one of the texts.
func (c *cluster) containsWith(want int, path string, texts ...string) string {
	c.t.Helper()
	var status int
	var body string
	await.Until(c.t, "the page reports the whole cluster", func() bool {
		status, body = c.get(path)
		return !partial(status, body)
	})
	if status != want {
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

// TestPagesShowTheCluster opens each page of a cluster that contains records, a tombstone, and a
// consumer group.
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

	await.Until(t, "all leaders serve", func() bool {
		_, body := c.get("")
		return strings.Contains(body, "Nothing: all partitions are served")
	})
	c.contains("", "Overview", "demo", "tickets", "2 brokers", "may clean")
	c.contains("topics", "tickets", "events", "not compacted", "Only the active segment is dirty")
	if body := c.contains("topics?search=TICK", "tickets"); strings.Contains(body, ">events<") {
		t.Error("the search found events")
	}
	c.contains("brokers", "up", "free of", "broker-1")
	c.contains("topic?name=tickets&tab=replicas", "leader", "in sync", "only the active segment")
	c.contains("topic?name=tickets&tab=settings", "min.cleanable.dirty.ratio", "10 %", "topic",
		"default", "delete.retention.ms", "maxGarbagePercent", "durability", "Replicated")
	c.contains("topic?name=tickets&tab=groups", "readers", "Empty")
	c.contains("groups", "readers", "tickets")
	c.contains("group?name=readers", "Offsets", "tickets", "Lag: 2")
	c.contains("topic?name=tickets", "printer on fire", ">superseded<", "fire out", "trace:",
		"tombstone: deletes the key", "found 5", "4.88 KiB")
	c.contains("topic?name=events", "no key", "ff fe", "found 1")
	for path, texts := range map[string][]string{
		"&latest=1":                  {"found 4", "hid 1 superseded one"},
		"&position=earliest&limit=2": {"printer on fire", "Next"},
		"&position=earliest&partition=0&limit=1&latest=1":        {"found 0", "hid 1 superseded one"},
		"&position=earliest&limit=2&cursor=0:1&looked=7&found=3": {"Looked at 9 records", "found 5"},
		"&position=offset&at=2&partition=0":                      {"found 2", "tombstone"},
		"&position=time&at=2100-01-01":                           {"found 0"},
		"&key=T-1&position=earliest":                             {"found 2", "Looked at 5 records"},
		"&value=out":                                             {"found 1"},
		"&position=earliest&cursor=0:4,1:1":                      {"found 0"},
		"&position=latest&partition=0&limit=1":                   {"found 1", "alert", "Older"},
		"&position=latest&cursor=0:1&fragment=1":                 {"printer on fire"},
	} {
		c.contains("topic?name=tickets"+path, texts...)
	}
	for path, text := range map[string]string{"&position=offset&at=2": "choose a partition",
		"&position=time&at=yesterday": "is invalid", "&partition=x": "not a number",
		"&cursor=x": "The cursor is invalid"} {
		c.containsWith(http.StatusBadRequest, "topic?name=tickets"+path, text)
	}
	c.contains("message?topic=tickets&partition=1&offset=0", strings.Repeat("v", 5000))
	c.contains("message?topic=tickets&partition=0&offset=2&go=previous", "Record 1 of tickets-0",
		"fire out")
	c.contains("message?topic=tickets&partition=0&offset=1&go=next&list=name%3Dtickets%26key%3DT",
		"Record 2 of tickets-0", `href="topic?key=T&name=tickets"`)
	c.contains("message?topic=tickets&partition=0&offset=0&go=previous", "Record 0 of tickets-0",
		"the first record of the partition")
	c.contains("message?topic=tickets&partition=0&offset=3&go=next", "Record 3 of tickets-0",
		"the last record of the partition", "position=offset")
	for path, want := range map[string]int{"message?topic=tickets&partition=0&offset=99": 404,
		"message?topic=tickets&partition=x&offset=0": 400, "topic?name=unknown": 404,
		"group?name=unknown": 404, "unknown": 404} {
		c.containsWith(want, path)
	}
}

// TestBytesOfRecordsAreText checks that HTML and control characters in keys, values and headers are
// shown as text.
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

// TestRootLeadsToTheConsole checks that a browser that opens the HTTP port is redirected to the
// console.
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

// TestKeysFindsEachRecord checks that the tab Keys finds a key's records in the default
// partitioner's partition, in another partition, and in a requested partition.
func TestKeysFindsEachRecord(t *testing.T) {
	c := startCluster(t)
	binary := "\x00\xff"
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for _, p := range []int32{0, 1} {
		for _, key := range []string{"T-1", binary, hostile} {
			records = append(records,
				&kgo.Record{Topic: "tickets", Partition: p, Key: []byte(key), Value: []byte("first")},
				&kgo.Record{Topic: "tickets", Partition: p, Key: []byte(key), Value: []byte(hostile)})
		}
	}
	// Each key is in only one partition, and one of the keys is not in the partition that its hash
	// selects.
	records = append(records,
		&kgo.Record{Topic: "tickets", Partition: 0, Key: []byte("low"), Value: []byte("v")},
		&kgo.Record{Topic: "tickets", Partition: 1, Key: []byte("high"), Value: nil})
	for i := range 20 {
		records = append(records, &kgo.Record{Topic: "tickets", Partition: 0,
			Key: fmt.Append(nil, "misplaced-", i), Value: []byte("found")})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	keys := "topic?name=tickets&tab=keys"
	c.contains(keys, "Finds every record of a key")
	c.contains(keys+"&key=T-1", "The key has a value of", "superseded</strong> by", "active segment",
		"live", "The search was complete")
	c.contains(keys+"&key=T-1&partition=all", "Partition 0, led by", "Partition 1, led by")
	c.contains(keys+"&as=base64&key="+url.QueryEscape("AP8="), "00 ff", "first")
	c.contains(keys+"&as=hex&key="+url.QueryEscape("00 FF"), "00 ff", "first")
	c.contains(keys+"&key=low&partition=0", "live")
	c.contains(keys+"&key=high&partition=1", "The key is deleted", "tombstone", "active segment")
	c.contains(keys+"&key=nobody", "There is no committed record", "So all partitions were searched")
	misplaced := 0
	for i := range 20 {
		body := c.contains(fmt.Sprintf("%s&key=misplaced-%d", keys, i), "found", "Partition 0")
		if strings.Contains(body, "So all partitions were searched") {
			misplaced++
		}
	}
	if misplaced == 0 || misplaced == 20 {
		t.Errorf("%d of 20 keys are not where their hash leads", misplaced)
	}
	for query, text := range map[string]string{"&as=base64&key=%21": "not base64",
		"&as=hex&key=xyz": "not hex", "&key=a&partition=-1": "not a number",
		"&key=" + strings.Repeat("k", 17<<10): "can be looked up"} {
		c.containsWith(http.StatusBadRequest, keys+query, text)
	}
	c.containsWith(http.StatusNotFound, keys+"&key=a&partition=7", "refused the lookup")
	link := regexp.MustCompile(`href="(topic\?as=[^"]*tab=keys)"`)
	for _, page := range []string{"topic?name=tickets", "message?topic=tickets&partition=0&offset=2"} {
		found := link.FindAllStringSubmatch(c.contains(page), -1)
		if len(found) == 0 {
			t.Errorf("%s has no link to the records of a key", page)
		}
		for _, href := range found {
			body := c.contains(html.UnescapeString(href[1]), "The search was complete")
			if strings.Contains(body, "<script>alert") || strings.Contains(body, "no committed record") {
				t.Errorf("%s does not show the records of the key", href[1])
			}
		}
	}
}
