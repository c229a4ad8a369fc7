package console_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// post sends a form. It returns the status and the body of the response, and the URL of the page to
// which the response redirects.
func (c *cluster) post(path string, form url.Values, headers ...string) (status int, body,
	position string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.console+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Request.URL.String()
}

// posts sends a form, and retries until the cluster is ready. It fails the test if the response has
// another status than want or lacks one of the texts.
func (c *cluster) posts(want int, path string, form url.Values, texts ...string) {
	c.t.Helper()
	var status int
	var body string
	await.Until(c.t, "the cluster accepts the form", func() bool {
		status, body, _ = c.post(path, form)
		return status == want || !partial(status, body)
	})
	if status != want {
		c.t.Fatalf("%s %v: got status %d: %s", path, form, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			c.t.Errorf("%s %v: the page lacks %q: %s", path, form, text, body)
		}
	}
}

// TestRecordsAreProduced checks that a record is stored as entered in the form, in the partition
// selected by the form or by the key's hash.
func TestRecordsAreProduced(t *testing.T) {
	c := startCluster(t)
	c.contains("produce?topic=tickets", "Produce a record to tickets", "<form")
	c.posts(200, "produce", url.Values{"topic": {"tickets"}, "partition": {"1"}, "key": {"T-1"},
		"value": {"printer\r\non fire"}, "headers": {"trace: abc\r\n\r\nempty:"}},
		"Record 0 of tickets-1", "printer\non fire", "header trace", "header empty")
	c.posts(200, "produce", url.Values{"topic": {"events"}, "nokey": {"1"}, "value": {"fffe"},
		"as": {"hex"}}, "Record 0 of events-0", "no key", "ff fe")
	c.posts(200, "produce", url.Values{"topic": {"tickets"}, "key": {"VC0x"}, "as": {"base64"},
		"tombstone": {"1"}, "partition": {"1"}}, "Record 1 of tickets-1", "tombstone", "T-1")
	c.posts(200, "produce", url.Values{"topic": {"tickets"}, "key": {"by-hash"}}, "by-hash")
	client := c.client(kgo.ConsumeTopics("tickets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	found := map[string]*kgo.Record{}
	for len(found) < 2 {
		client.PollRecords(t.Context(), 10).EachRecord(func(r *kgo.Record) { found[string(r.Key)] = r })
	}
	chosen := kgo.StickyKeyPartitioner(nil).ForTopic("tickets").Partition(
		&kgo.Record{Key: []byte("by-hash")}, 2)
	if r := found["by-hash"]; int(r.Partition) != chosen || r.Value == nil || len(r.Value) > 0 {
		t.Errorf("got partition %d, value %v; want partition %d and an empty value", r.Partition,
			r.Value, chosen)
	}
	for text, form := range map[string]url.Values{
		"choose one":          {"key": {"a"}, "nokey": {"1"}},
		"has no value":        {"key": {"a"}, "tombstone": {"1"}, "value": {"b"}},
		"needs the key":       {"nokey": {"1"}, "tombstone": {"1"}},
		"is not a number":     {"partition": {"x"}},
		"The value is not":    {"value": {"xyz"}, "as": {"hex"}},
		"of the form name":    {"headers": {"nothing"}},
		"The key is not hex.": {"key": {"g"}, "as": {"hex"}},
	} {
		form.Set("topic", "tickets")
		c.posts(400, "produce", form, text, "<form")
	}
	if status, body, _ := c.post("produce", url.Values{"topic": {"tickets"}, "partition": {"9"}}); status < 400 || !strings.Contains(body, "partition") {
		t.Errorf("an unknown partition: got status %d: %s", status, body)
	}
	c.posts(413, "produce", url.Values{"topic": {"tickets"}, "value": {strings.Repeat("v", 3<<20)}},
		"too large")
}

// TestWritesOfOtherSitesAreRefused checks that a page from another site cannot change anything.
func TestWritesOfOtherSitesAreRefused(t *testing.T) {
	c := startCluster(t)
	for _, path := range []string{"produce", "offsets", "deletegroup", "abort", "clean"} {
		form := url.Values{"topic": {"tickets"}, "group": {"a"}, "id": {"a"}, "key": {"stolen"}}
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.com"},
			{"Origin", "null"}} {
			if status, body, _ := c.post(path, form, header...); status != 403 {
				t.Errorf("%s with %v: got status %d: %s", path, header, status, body)
			}
		}
	}
	c.contains("topic?name=tickets", "found 0")
}

// TestOffsetsAreChanged checks that the form shows the changes before they are made, and that a
// group with members keeps its offsets.
func TestOffsetsAreChanged(t *testing.T) {
	c := startCluster(t)
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range 10 {
		record := &kgo.Record{Topic: "tickets", Key: []byte("T"), Value: []byte("a")}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	admin := kadm.NewClient(client)
	offsets := kadm.Offsets{}
	offsets.AddOffset("tickets", 0, 7, -1)
	if err := admin.CommitAllOffsets(t.Context(), "readers", offsets); err != nil {
		t.Fatal(err)
	}
	committed := func() int64 {
		t.Helper()
		found, err := admin.FetchOffsets(t.Context(), "readers")
		if err != nil {
			t.Fatal(err)
		}
		if offsetResponse, ok := found.Lookup("tickets", 0); ok {
			return offsetResponse.At
		}
		return -1
	}
	c.contains("group?name=readers", "Change offsets…", "Delete…")
	if all := c.contains("offsets?group=readers&to=earliest", "tickets-0"); strings.Contains(all,
		"tickets-1") {
		t.Error("without a topic, the form changes an offset that the group has not committed")
	}
	c.contains("offsets?group=readers&to=earliest&topic=tickets", "tickets-1", "start here")
	for _, test := range []struct {
		form  url.Values
		shown string
		want  int64
	}{
		{url.Values{"to": {"earliest"}}, "7 offsets again", 0},
		{url.Values{"to": {"offset"}, "at": {"3"}, "topic": {"tickets"}, "partition": {"0"}},
			"3 offsets left out", 3},
		{url.Values{"to": {"time"}, "at": {"2000-01-01"}}, "3 offsets again", 0},
		{url.Values{"to": {"offset"}, "at": {"99"}, "topic": {"tickets"}, "partition": {"0"}},
			"the offset is not in the log", 10},
		{url.Values{"to": {"time"}, "at": {"2100-01-01"}}, "none", 10},
		{url.Values{"to": {"latest"}}, "none", 10},
		{url.Values{"to": {"delete"}}, "auto.offset.reset", -1},
	} {
		test.form.Set("group", "readers")
		before := committed()
		c.contains("offsets?"+test.form.Encode(), test.shown, `method="post"`)
		if after := committed(); after != before {
			t.Errorf("%v: showing the changes made them: %d", test.form, after)
		}
		c.posts(200, "offsets", test.form)
		if got := committed(); got != test.want {
			t.Errorf("%v: got offset %d, want %d", test.form, got, test.want)
		}
		if test.want < 0 { // the group is not deleted
			_ = admin.CommitAllOffsets(t.Context(), "readers", offsets)
		}
	}
	for text, form := range map[string]url.Values{"choose its topic": {"to": {"latest"},
		"partition": {"0"}}, "not a number": {"to": {"offset"}, "at": {"x"}},
		"is invalid": {"to": {"time"}, "at": {"x"}}, "Choose where": {"to": {"x"}}} {
		form.Set("group", "readers")
		c.posts(400, "offsets", form, text)
		c.contains("offsets?"+form.Encode(), text)
	}
	c.containsWith(404, "offsets?group=unknown", "There is no group")
	reader := c.client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("tickets"))
	reader.PollRecords(t.Context(), 1)
	c.contains("offsets?group=readers&to=earliest", "stop its consumers first")
	c.posts(409, "offsets", url.Values{"group": {"readers"}, "to": {"earliest"}},
		"stop its consumers first")
	c.posts(409, "deletegroup", url.Values{"group": {"readers"}}, "stop its consumers first")
	reader.Close()
	c.contains("deletegroup?group=readers", "auto.offset.reset")
	c.posts(200, "deletegroup", url.Values{"group": {"readers"}}, "There are no consumer groups")
}

// TestTransactionsAreShownAndAborted checks that a user finds an open transaction and aborts it.
// The abort must fence the producer.
func TestTransactionsAreShownAndAborted(t *testing.T) {
	c := startCluster(t)
	client := c.client(kgo.TransactionalID("payments"))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: "events", Value: []byte("open")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.contains("transactions", "payments", "Ongoing", "events", "abort…")
	c.contains("transaction?id=payments", "Ongoing", "events", "Abort…", "40 s")
	c.contains("abort?id=payments", "fenced", `method="post"`)
	c.contains("abort?topic=events&partition=0&offset=0", "hanging transaction at offset 0")
	c.posts(409, "abort", url.Values{"topic": {"events"}, "partition": {"0"}, "offset": {"0"}},
		"No hanging transaction")
	c.posts(200, "abort", url.Values{"id": {"payments"}}, "Transactional id payments")
	await.Until(t, "the transaction is aborted", func() bool {
		_, body := c.get("transaction?id=payments")
		return strings.Contains(body, "CompleteAbort")
	})
	c.contains("transactions", "No partition has an open transaction")
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the aborted transaction was committed")
	}
	c.posts(409, "abort", url.Values{"id": {"payments"}}, "refuses to abort")
	c.posts(409, "abort", url.Values{"id": {"unknown"}}, "cannot be aborted")
	c.containsWith(404, "transaction?id=unknown", "There is no transactional id")
	c.containsWith(400, "abort?topic=events", "not a number")
}

// TestUsersOfAnOpenCluster checks that the page states that the cluster has no users.
func TestUsersOfAnOpenCluster(t *testing.T) {
	startCluster(t).contains("users", "has no authorization")
}

// TestDownloadContainsEachRecord checks that a download contains one JSON object per line,
// including bytes that are not text.
func TestDownloadContainsEachRecord(t *testing.T) {
	c := startCluster(t)
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records := []*kgo.Record{{Topic: "tickets", Key: []byte("<T>"), Value: []byte("\xff"),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}, {Topic: "tickets", Key: []byte("T")}}
	for range 1200 { // more than a page
		records = append(records, &kgo.Record{Topic: "tickets", Key: []byte("other"),
			Value: []byte("v"), Partition: 1})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var body string
	await.Until(t, "the download has all records", func() bool {
		_, body = c.get("download?name=tickets&position=earliest")
		return strings.Count(body, "\n") >= len(records)
	})
	seen := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		var line struct {
			Key         string
			Value       *string
			ValueBase64 []byte
			Headers     []struct{ Key, Value string }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		seen[line.Key]++
		switch line.Key {
		case "<T>":
			if string(line.ValueBase64) != "\xff" || line.Value != nil || line.Headers[0].Value != "v" {
				t.Errorf("got %s", lines.Bytes())
			}
		case "T":
			if line.Value != nil || !strings.Contains(lines.Text(), `"value":null`) {
				t.Errorf("the tombstone became %s", lines.Bytes())
			}
		}
	}
	if seen["<T>"] != 1 || seen["T"] != 1 || seen["other"] != 1200 || len(seen) != 3 {
		t.Errorf("got %v", seen)
	}
	if _, filtered := c.get("download?name=tickets&key=T%3E"); strings.Count(filtered, "\n") != 1 {
		t.Errorf("the filter does not apply: %s", filtered)
	}
	c.containsWith(400, "download", "names no topic")
	c.containsWith(404, "download?name=unknown")
}
