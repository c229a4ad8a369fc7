package console_test

import (
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// queried contains the pages with query parameters.
var queried = []string{"", "topics", "topic", "message", "groups", "group", "brokers", "map",
	"segment", "replay", "clean", "live", "tail", "frames", "download", "produce", "offsets",
	"deletegroup", "users", "transactions", "transaction", "abort", "unknown"}

// goodQueries contains valid queries by page.
var goodQueries = map[string][]string{
	"":       {"", "fragment=1"},
	"topics": {"search=tick&internal=1", "search=%00%ff"},
	"topic": {"name=tickets&tab=messages&position=earliest&limit=2&latest=1",
		"name=tickets&partition=0&position=offset&at=1&key=T&value=p",
		"name=tickets&position=time&at=2026-01-31T23:59:59Z&cursor=0:1,1:0",
		"name=tickets&tab=keys&key=T-1", "name=tickets&tab=keys&key=AP8%3D&as=base64&partition=all",
		"name=tickets&tab=keys&key=00ff&as=hex&partition=1", "name=tickets&tab=replicas",
		"name=tickets&position=tail&key=T&value=p&latest=1&partition=0", "name=tickets&tab=settings", "name=events&tab=groups"},
	"message": {"topic=tickets&partition=0&offset=0", "topic=tickets&partition=0&offset=0&raw=1",
		"topic=tickets&partition=0&offset=0&go=next&list=name%3Dtickets"},
	"download": {"name=tickets&position=earliest", "name=tickets&key=T&position=tail"},
	"produce":  {"topic=tickets&key=a&value=b&as=hex"}, "abort": {"id=a"},
	"users": {"sort=-resource"}, "transactions": {"sort=began"},
	"group":   {"name=readers"},
	"map":     {"topic=tickets&replicas=1&asked=1&open=0@0:0-99&open=1@1:5-0"},
	"segment": {"topic=tickets&partition=0&broker=0&base=0&last=0"},
	"replay":  {"topic=tickets&broker=0&pass=1&step=2"},
	"frames":  {"topic=tickets&broker=0&pass=1"},
	"clean":   {"topic=tickets"},
	"live":    {"topic=tickets&replicas=1&open=0@0:0-99"},
	"tail":    {"name=tickets&from=0:1,1:0", "name=tickets&partition=0&key=T&value=p&latest=1"},
}

// badQueries contains invalid queries by page.
var badQueries = map[string][]string{
	"topic": {"", "name=unknown", "name=tickets&partition=99", "name=tickets&partition=-1",
		"name=tickets&partition=2147483648", "name=tickets&cursor=7:1", "name=tickets&cursor=0:-5",
		"name=tickets&position=offset&partition=0&at=9223372036854775807",
		"name=tickets&position=latest&cursor=0:9223372036854775807&limit=-1",
		"name=tickets&position=time&at=9999-12-31", "name=tickets&position=time&at=0001-01-01",
		"name=tickets&tab=keys&key=a&partition=9", "name=tickets&tab=keys&key=%&as=hex",
		"name=tickets&position=tail&partition=x",
		"name=tickets&position=tail&cursor=x", "name=..%2F..&tab=keys&key=a", "name=%00", "name=tickets;tab=keys"},
	"topics": {"sort=x", "sort=-"}, "groups": {"sort=%00"}, "produce": {""},
	"download": {"", "name=unknown", "name=tickets&partition=9", "name=tickets&cursor=x"},
	"offsets":  {"", "group=unknown&to=latest"}, "deletegroup": {"", "group=%00"},
	"transaction": {"", "id=%00"}, "abort": {"", "topic=tickets&partition=x"},
	"message": {"", "topic=tickets&partition=0&offset=-9223372036854775808&go=previous",
		"topic=tickets&partition=0&offset=9223372036854775807&go=next", "partition=0&offset=0", "topic=unknown&partition=0&offset=0",
		"topic=tickets&partition=7&offset=0",
		"topic=tickets&partition=-1&offset=0", "topic=tickets&partition=0&offset=-1",
		"topic=tickets&partition=0&offset=9223372036854775807", "topic=%00&partition=0&offset=0"},
	"group": {"", "name=unknown", "name=%ff"},
	"map":   {"topic=unknown", "topic=%00"},
	"segment": {"", "topic=unknown&partition=0&broker=0&base=0&last=0",
		"partition=0&broker=0&base=0&last=0",
		"topic=tickets&partition=4294967296&broker=0&base=9&last=1"},
	"replay": {"", "topic=unknown&broker=0&pass=1", "topic=tickets&broker=9&pass=0",
		"topic=tickets&broker=-1&pass=9223372036854775807&step=-1"},
	"frames": {"topic=tickets&broker=0&pass=x"},
	"clean":  {"", "topic=unknown", "topic=%ff"},
	"live":   {"", "topic=unknown"},
	"tail": {"", "name=unknown", "name=%00", "name=tickets&partition=9", "name=tickets&from=x",
		"name=tickets&from=0:-5,7:9223372036854775807"},
}

// tags matches the tags in a page.
var tags = regexp.MustCompile(`<[^>]*>`)

// FuzzQueries checks that no query makes a page fail. For an invalid query, the response must have
// a 4xx status and contain the reason.
func FuzzQueries(f *testing.F) {
	c := startCluster(f)
	records := []*kgo.Record{{Topic: "tickets", Key: []byte("T-1"), Value: []byte("printer")},
		{Topic: "tickets", Key: []byte("T-1")}, {Topic: "events", Value: []byte("\xff")}}
	if err := c.client().ProduceSync(f.Context(), records...).FirstErr(); err != nil {
		f.Fatal(err)
	}
	for page, path := range queried {
		f.Add(uint8(page), "")
		for _, query := range append(goodQueries[path], badQueries[path]...) {
			f.Add(uint8(page), query)
		}
	}
	f.Fuzz(func(t *testing.T, page uint8, query string) {
		path := queried[int(page)%len(queried)]
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.console+path,
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.RawQuery = query
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			t.Skip("no client sends it")
		}
		var status int
		var body string
		await.Until(t, "the page reports the whole cluster", func() bool {
			status, body = exchange(t, request)
			return !partial(status, body)
		})
		words := len(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))))
		if status >= 500 || status >= 400 && words < 4 {
			t.Errorf("%s?%s: got status %d: %s", path, query, status, body)
		}
	})
}

// exchange returns the status and the body of a response. For a stream it reads only the status.
func exchange(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Type") == "text/event-stream" {
		return response.StatusCode, ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
