package broker

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
)

// TestEventsOverHTTP checks that a client of a real server receives first the snapshot, and then
// the passes, their steps, and the segments that the passes have replaced.
func TestEventsOverHTTP(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.sync(1, 1, 2, "")
	server := httptest.NewServer(handlerOf(c.Broker))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		server.URL+"/api/v1/events?topic=tickets", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK ||
		response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got status %s, header %v", response.Status, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	await := func(names ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, name := range names {
			missing[name] = true
		}
		for len(missing) > 0 && lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				delete(missing, name)
			}
		}
		if len(missing) > 0 {
			t.Fatalf("the stream has ended without %v: %v", missing, lines.Err())
		}
	}
	await(report.EventSegments, report.EventReady)
	client := c.client()
	for round := range 3 {
		c.produce(client, string(rune('a'+round)), 200)
		c.cleanTickets()
	}
	await(report.EventPass, report.EventStep, report.EventSegments)
	var tooMany []string
	for range httpport.EventTopicsMax + 1 {
		tooMany = append(tooMany, "topic=t")
	}
	if r := get(t, handlerOf(c.Broker), "GET", "/api/v1/events?"+strings.Join(tooMany,
		"&")); r.Code != http.StatusBadRequest {
		t.Errorf("too many topics: got %d %s", r.Code, r.Body)
	}
}
