package httpport

import (
	"net/url"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestMurmur2 uses the test values from Kafka's UtilsTest.
func TestMurmur2(t *testing.T) {
	for text, want := range map[string]int32{"21": -973932308, "foobar": -790332482,
		"a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107} {
		if got := int32(murmur2([]byte(text))); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// FuzzReportQueries checks that no query causes a panic, and that each accepted query is within the
// limits.
func FuzzReportQueries(f *testing.F) {
	f.Add("0", "from=1&limit=500&broker=2")
	f.Add("1", "topic=a&topic=b&before=7&steps=true&limit=16")
	f.Add("2", "key=a2V5&partition=3&valueBytes=4096&latest=true")
	f.Fuzz(func(t *testing.T, partition, raw string) {
		query, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		if q, err := parseSegmentsQuery("t", partition, query); err == nil &&
			(q.id.Index < 0 || q.from < 0 || q.limit < 1 || q.limit > report.SegmentsMax) {
			t.Errorf("segments: accepted %+v", q)
		}
		if q, err := parsePassesQuery(query); err == nil && (q.Limit < 1 ||
			q.Limit > report.PassesMax || q.Steps && q.Limit > passesWithSteps) {
			t.Errorf("passes: accepted %+v", q)
		}
		if q, err := parseKeysQuery("t", query); err == nil && (len(q.key) > keyBytesMax ||
			q.valueBytes < 0 || q.valueBytes > lookupBytesMax || q.all && q.partition >= 0) {
			t.Errorf("keys: accepted %+v", q)
		}
		if _, err := parseKeysQuery("t", query); err != nil && strings.Contains(raw, "\n") &&
			strings.Contains(err.Error(), "\n") {
			t.Errorf("the error %q has several lines", err)
		}
	})
}
