package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// fill writes records with a few keys to topic tickets until there is garbage for passes to remove.
func (c *cluster) fill() {
	c.t.Helper()
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	var records []*kgo.Record
	for i := range 6000 {
		records = append(records, &kgo.Record{Topic: "tickets", Key: fmt.Append(nil, i%100),
			Value: []byte(strings.Repeat(fmt.Sprint(i*7919), 100))})
	}
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// TestMapShowsSegmentsAndPasses opens a topic's map, the details of a block, and the replay of a
// pass, and requests another pass.
func TestMapShowsSegmentsAndPasses(t *testing.T) {
	c := startCluster(t)
	c.fill()
	replay := regexp.MustCompile(`href="(replay[^"]*)"`)
	var body string
	await.Until(t, "the map links a replay", func() bool {
		_, body = c.get("map?topic=tickets")
		return replay.MatchString(body)
	})
	c.contains("map", "Cleaner map: tickets", "tickets-1", "broker ", "Passes", "dirty ratio",
		`data-live="live?topic=tickets"`)
	c.contains("map?topic=tickets&replicas=1", `data-row="0@`)
	c.contains("map?topic=events", "is not compacted")
	if status, _ := c.get("map?topic=unknown"); status != http.StatusNotFound {
		t.Errorf("the map of an unknown topic has status %d", status)
	}

	link := regexp.MustCompile(`href="(segment[^"]*)"`).FindStringSubmatch(body)
	if link == nil {
		t.Fatalf("the map has no block: %s", body)
	}
	segment := strings.ReplaceAll(link[1], "&amp;", "&")
	c.contains(segment, "of tickets-0", "offsets", "on disk", "Back to the map")
	if fragment := c.contains(segment+"&fragment=1", "on disk"); strings.Contains(fragment, "<html") {
		t.Error("the fragment is a whole page")
	}

	play := strings.ReplaceAll(replay.FindStringSubmatch(body)[1], "&amp;", "&")
	c.contains(play, "Replay: tickets-", "compared all keys", "0 of ")
	c.contains(play+"&step=9999", "are gone")
	_, frames := c.get(strings.Replace(play, "replay", "frames", 1))
	var steps []struct {
		Kind   string
		Blocks []struct{ K string }
	}
	if err := json.Unmarshal([]byte(frames), &steps); err != nil || len(steps) < 3 ||
		steps[0].Kind != "announce" || steps[len(steps)-1].Kind != "end" {
		t.Errorf("got frames %.500s: %v", frames, err)
	}

	c.contains("clean?topic=tickets", "Clean tickets now", "<button")
	response, err := http.PostForm(c.console+"clean", url.Values{"topic": {"tickets"}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := response.Request.URL; !strings.HasSuffix(got.Path, "/map") ||
		got.Query().Get("asked") != "1" {
		t.Errorf("the request led to %s with status %d", got, response.StatusCode)
	}
	await.Until(t, "the map shows the requested pass", func() bool {
		_, body := c.get("map?topic=tickets&replicas=1")
		return strings.Contains(body, "<td>requested</td>")
	})
}

// TestCleanIsRefused checks that the console refuses requests to clean that come from pages of
// other sites, or that are for unknown or uncompacted topics.
func TestCleanIsRefused(t *testing.T) {
	c := startCluster(t)
	for _, test := range []struct {
		topic, site string
		status      int
	}{{"tickets", "cross-site", 403}, {"tickets", "same-site", 403}, {"", "", 400},
		{"unknown", "", 502}, {"events", "", 502}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.console+"clean",
			strings.NewReader(url.Values{"topic": {test.topic}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", test.site)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.status {
			t.Errorf("%+v: got status %d", test, response.StatusCode)
		}
	}
}

// TestLiveSendsFrames checks that the stream begins with all rows, and sends a row again when it
// changes.
func TestLiveSendsFrames(t *testing.T) {
	c := startCluster(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		c.console+"live?topic=tickets", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	seen := map[string]int{}
	first, filled := true, false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var frame struct {
			Rows []struct {
				ID     string
				Blocks []struct{ K string }
			}
			Order []string
		}
		if err := json.Unmarshal([]byte(data), &frame); err != nil {
			t.Fatal(err)
		}
		if first && (len(frame.Rows) != 2 || len(frame.Order) != 2) {
			t.Fatalf("the first frame is %.300s", data)
		}
		for _, row := range frame.Rows {
			seen[row.ID] = max(seen[row.ID], len(row.Blocks))
		}
		if first = false; !filled {
			filled = true
			c.fill()
		}
		if seen["0"] > 2 {
			return
		}
	}
	t.Errorf("the stream ended: %v, blocks %v", lines.Err(), seen)
}
