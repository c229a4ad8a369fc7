package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// tailed is the data of one event in a tail's stream.
type tailed struct {
	ID                            string
	Rows                          string
	Looked, Found, Shown, Skipped int64
}

// tail opens a page's stream, and returns a function that reads the next event. The stream is
// closed when the test ends. If last is not empty, it is sent as the header Last-Event-ID.
func (c *cluster) tail(query, last string) (next func() tailed) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet,
		c.console+"tail?"+query, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	var response *http.Response
	await.Until(c.t, "the stream opens", func() bool {
		response, err = http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		c.t.Cleanup(func() { response.Body.Close() })
		return response.StatusCode == http.StatusOK
	})
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	return func() (sums tailed) {
		c.t.Helper()
		for name, id := "", ""; lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name, id = value, ""
			}
			if value, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = value
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || name != "records" {
				continue
			}
			if err := json.Unmarshal([]byte(data), &sums); err != nil {
				c.t.Fatal(err)
			}
			sums.ID = id
			return sums
		}
		c.t.Fatalf("the stream ended: %v", lines.Err())
		return sums
	}
}

func (c *cluster) produce(client *kgo.Client, records ...*kgo.Record) {
	c.t.Helper()
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// TestTailStreamsNewRecords checks the stream whose URL a page contains. It continues where the
// page ends and applies the page's filters. When the browser reconnects, it continues after its
// last event.
func TestTailStreamsNewRecords(t *testing.T) {
	c := startCluster(t)
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	record := func(key, value string) *kgo.Record {
		return &kgo.Record{Topic: "tickets", Key: []byte(key), Value: []byte(value)}
	}
	c.produce(client, record("T-1", "before the page"))
	page := c.contains("topic?name=tickets&position=tail&key=T-", "before the page",
		`<noscript><meta http-equiv="refresh"`, "and follow")
	link := regexp.MustCompile(`data-live="tail\?([^"]*)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("the page names no stream: %s", page)
	}
	query := strings.ReplaceAll(link[1], "&amp;", "&")

	c.produce(client, record("T-2", "between"), record("U-1", "other"))
	next := c.tail(query, "")
	var rows strings.Builder
	var got tailed
	for looked := int64(0); looked < 2; looked += got.Looked {
		got = next()
		rows.WriteString(got.Rows)
	}
	if text := rows.String(); !strings.Contains(text, "between") ||
		strings.Contains(text, "other") || strings.Contains(text, "before the page") {
		t.Errorf("got rows %s", text)
	}

	c.produce(client, record("T-3", "while disconnected"))
	if again := c.tail(query, got.ID)(); again.Found != 1 ||
		!strings.Contains(again.Rows, "while disconnected") {
		t.Errorf("after the event %s: got %+v", got.ID, again)
	}
	if got = next(); got.Found != 1 || !strings.Contains(got.Rows, "while disconnected") {
		t.Errorf("got %+v", got)
	}
}

// TestTailRowsAreBoundedText checks that rows contain records as text. A record that another row
// supersedes is marked or omitted. Large values and headers are truncated.
func TestTailRowsAreBoundedText(t *testing.T) {
	c := startCluster(t)
	next := c.tail("name=tickets&from=0:0,1:0", "")
	latest := c.tail("name=tickets&latest=1&from=0:0,1:0", "")
	large := strings.Repeat("<b>", 4_000)
	var records []*kgo.Record
	for i := range 40 {
		r := &kgo.Record{Topic: "tickets", Key: []byte(hostile), Value: []byte(large)}
		for h := range 8 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint(h), Value: []byte(large)})
		}
		if i < 2 {
			r.Value, r.Headers = []byte("small"), nil
		}
		records = append(records, r)
	}
	c.produce(c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(900_000), kgo.ProducerBatchCompression(kgo.GzipCompression())),
		records...)
	sum := map[bool]tailed{}
	for name, read := range map[bool]func() tailed{false: next, true: latest} {
		for tailed := sum[name]; tailed.Looked+tailed.Skipped < 40; sum[name] = tailed {
			got := read()
			if len(got.Rows) > 256<<10 || strings.Contains(got.Rows, "<b>") ||
				strings.Contains(got.Rows, "<script") || strings.Contains(got.Rows, "\u202e") {
				t.Errorf("got %d bytes of rows, or HTML: %.200s", len(got.Rows), got.Rows)
			}
			tailed.Looked, tailed.Skipped = tailed.Looked+got.Looked, tailed.Skipped+got.Skipped
			tailed.Found, tailed.Shown = tailed.Found+got.Found, tailed.Shown+got.Shown
		}
	}
	if tailed := sum[false]; tailed.Shown >= tailed.Found || tailed.Shown == 0 {
		t.Errorf("got %+v, want a limit by bytes", tailed)
	}
	if tailed := sum[true]; tailed.Shown >= tailed.Found {
		t.Errorf("latest of each key only: got %+v", tailed)
	}
}

// TestTailIsRefused checks that invalid queries are refused, and requests whose host may belong to
// a proxy.
func TestTailIsRefused(t *testing.T) {
	c := startCluster(t)
	for query, want := range map[string]int{"": 400, "name=tickets&partition=x": 400,
		"name=tickets&from=x": 400, "name=unknown": 404, "name=tickets&partition=9": 404} {
		c.containsWith(want, "tail?"+query)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		c.console+"tail?"+url.Values{"name": {"tickets"}}.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusForbidden {
		t.Errorf("by a proxy: got status %d: %s", response.StatusCode, body)
	}
}
