package httpport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
)

func get(t *testing.T, handler http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return recorder
}

func TestHTTPHealthAndReadiness(t *testing.T) {
	var notReady error
	handler := New(Options{Gatherer: prometheus.NewRegistry(),
		Ready: func() error { return notReady }})
	notReady = errors.New("waiting for the cluster's metadata")
	if r := get(t, handler, "GET", "/readyz"); r.Code != http.StatusServiceUnavailable ||
		!strings.Contains(r.Body.String(), notReady.Error()) {
		t.Errorf("while not ready: got response %d %s", r.Code, r.Body)
	}
	if r := get(t, handler, "GET", "/healthz"); r.Code != http.StatusOK {
		t.Errorf(
			"healthz while not ready: got status %d, want 200, because a restart would not help",
			r.Code,
		)
	}
	notReady = nil
	if r := get(t, handler, "GET", "/readyz"); r.Code != http.StatusOK {
		t.Errorf("while ready: got response %d %s", r.Code, r.Body)
	}
}

func TestHTTPPartitionsAreSortedAndFiltered(t *testing.T) {
	rows := []report.Partition{
		{Broker: 1, Topic: "b", Partition: 10}, {Broker: 1, Topic: "b", Partition: 9},
		{Broker: 2, Topic: "a"}, {Broker: 0, Topic: "a"},
		{Topic: "c"},
	}
	handler := New(Options{Gatherer: prometheus.NewRegistry(),
		Partitions: func() []report.Partition { return rows }})
	for query, want := range map[string]string{
		"":                 "a/0@0 a/0@2 b/9@1 b/10@1 c/0@0",
		"?topic=b":         "b/9@1 b/10@1",
		"?topic=c&topic=a": "a/0@0 a/0@2 c/0@0",
		"?topic=none":      "",
	} {
		r := get(t, handler, "GET", "/api/v1/partitions"+query)
		var answer report.Partitions
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != http.StatusOK {
			t.Fatalf("%q: %d %s: %v", query, r.Code, r.Body, err)
		}
		var got []string
		for _, row := range answer.Partitions {
			got = append(got, row.Topic+"/"+itoa(row.Partition)+"@"+itoa(row.Broker))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", query, got, want)
		}
		if strings.Contains(r.Body.String(), "null") {
			t.Errorf("%q: null instead of a list: %s", query, r.Body)
		}
	}
}

// TestHTTPCleanNow checks that each error of CleanNow has its own status code and reason.
func TestHTTPCleanNow(t *testing.T) {
	var topic string
	var partitions []int32
	var fault error
	handler := New(Options{Gatherer: prometheus.NewRegistry(),
		CleanNow: func(t string, p []int32) (report.CleanRequests, error) {
			topic, partitions = t, p
			return report.CleanRequests{Topic: t,
				Requests: []report.CleanRequest{{Broker: 1, Partition: 2, Ticket: 3}}}, fault
		}})
	r := get(t, handler, "POST", "/api/v1/topics/my.topic/clean?partition=2&partition=0")
	if r.Code != http.StatusAccepted || topic != "my.topic" ||
		!slices.Equal(partitions, []int32{2, 0}) ||
		strings.TrimSpace(
			r.Body.String(),
		) != `{"topic":"my.topic","requests":[{"broker":1,"partition":2,"ticket":3}]}` {
		t.Errorf(
			"got response %d %s, request for topic %s, partitions %v",
			r.Code,
			r.Body,
			topic,
			partitions,
		)
	}
	for _, c := range []struct {
		err    error
		code   int
		reason string
	}{
		{ErrUnknownTopic, 404, "UnknownTopic"}, {ErrUnknownPartition, 404, "UnknownPartition"},
		{ErrStarting, 503, "NotReady"},
		{cleaner.ErrNotCompacted, 409, "NotCompacted"},
		{cleaner.ErrDisabled, 409, "CleanerDisabled"},
		{errors.New("disk on fire"), 500, "Failed"},
	} {
		fault = fmt.Errorf("clean: %w", c.err)
		r := get(t, handler, "POST", "/api/v1/topics/t/clean")
		var answer report.Failure
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != c.code ||
			answer.Reason != c.reason || answer.Error != fault.Error() {
			t.Errorf("%v: got response %d %s", c.err, r.Code, r.Body)
		}
	}
	if r := get(t, handler, "POST",
		"/api/v1/topics/t/clean?partition=all"); r.Code != http.StatusBadRequest {
		t.Errorf("partition=all: got response %d %s, want 400", r.Code, r.Body)
	}
	if r := get(t, handler, "GET", "/api/v1/topics/t/clean"); r.Code != http.StatusNotFound {
		t.Errorf("GET: got response %d %s, want 404", r.Code, r.Body)
	}
}

// TestHTTPRejectsCrossOriginRequests checks that a web page from another origin cannot request
// passes.
func TestHTTPRejectsCrossOriginRequests(t *testing.T) {
	handler := New(Options{Gatherer: prometheus.NewRegistry()})
	request := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/topics/t/clean", nil)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusForbidden ||
		!strings.Contains(recorder.Body.String(), `"reason":"Forbidden"`) {
		t.Errorf("got response %d %s, want 403", recorder.Code, recorder.Body)
	}
}

func TestHTTPTopicsAreFiltered(t *testing.T) {
	handler := New(Options{Gatherer: prometheus.NewRegistry(),
		Topics: func() summary.Topics {
			return summary.Topics{Topics: []summary.Topic{{Topic: "a"}, {Topic: "b"}, {Topic: "c"}}}
		}})
	for query, want := range map[string]string{"": "a b c ", "?topic=b": "b ",
		"?topic=c&topic=a": "a c ", "?topic=none": ""} {
		r := get(t, handler, "GET", "/api/v1/topics"+query)
		var answer summary.Topics
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != http.StatusOK ||
			strings.Contains(r.Body.String(), "null") {
			t.Fatalf("%q: %d %s: %v", query, r.Code, r.Body, err)
		}
		got := ""
		for _, topic := range answer.Topics {
			got += topic.Topic + " "
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", query, got, want)
		}
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func TestHTTPServesMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "heartwood_test_total",
		Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	r := get(t, New(Options{Gatherer: registry}), "GET", "/metrics")
	if r.Code != http.StatusOK || !strings.Contains(r.Body.String(), "heartwood_test_total 3") {
		t.Errorf("got response %d %s", r.Code, r.Body)
	}
}

// TestHTTPNotFoundIsJSON checks that the response is JSON for an unknown path, and for a method
// that a path does not support.
func TestHTTPNotFoundIsJSON(t *testing.T) {
	handler := New(Options{Gatherer: prometheus.NewRegistry()})
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/api/v1/nothing"},
		{"POST", "/api/v1/partitions"}, {"DELETE", "/metrics"}} {
		r := get(t, handler, c[0], c[1])
		var answer struct{ Error string }
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil ||
			r.Code != http.StatusNotFound || !strings.Contains(answer.Error, c[1]) {
			t.Errorf("%s %s: got response %d %s: %v", c[0], c[1], r.Code, r.Body, err)
		}
		if kind := r.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %s: got content type %s", c[0], c[1], kind)
		}
	}
}

// deadlines is a response that records the deadlines set on it.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(moment time.Time) error {
	d.read = moment
	return nil
}

func (d *deadlines) SetWriteDeadline(moment time.Time) error {
	d.write = moment
	return nil
}

// TestHTTPRequestsHaveADeadline checks that a client that does not read its response occupies
// memory only for a limited time, and that recording a profile may take longer.
func TestHTTPRequestsHaveADeadline(t *testing.T) {
	handler := New(Options{Gatherer: prometheus.NewRegistry(), Pprof: true})
	for path, limited := range map[string]bool{"/metrics": true, "/unknown": true,
		"/debug/pprof/cmdline": false} {
		began := time.Now()
		w := &deadlines{httptest.NewRecorder(), began, began}
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody))
		for _, moment := range []time.Time{w.read, w.write} {
			if moment.IsZero() == limited || limited && moment.Sub(began) < requestTimeout {
				t.Errorf("%s: got deadline %v after %v", path, moment, began)
			}
		}
	}
}

// TestHTTPSlowClientsAreEnded checks that a client that sends only part of a body, or does not read
// the response, occupies a connection and a handler only until the deadline.
func TestHTTPSlowClientsAreEnded(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(withDeadline(100*time.Millisecond, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			for r.Method == http.MethodGet && err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			ended <- err
		})))
	t.Cleanup(server.Close)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: got error %v", request, err)
		}
	}
}

// TestHTTPStuckScrapesAreBounded checks that the number of concurrent scrapes is limited even if
// scrapes never end.
func TestHTTPStuckScrapesAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, scrapesMax), make(chan struct{})
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		begun <- struct{}{}
		<-end
		return nil, nil
	})
	handler := New(Options{Gatherer: gatherer})
	var group sync.WaitGroup
	for range scrapesMax {
		group.Go(func() { get(t, handler, "GET", "/metrics") })
	}
	for range scrapesMax {
		<-begun
	}
	refused := make(chan int, 1)
	group.Go(func() { refused <- get(t, handler, "GET", "/metrics").Code })
	select {
	case <-begun:
		t.Error("a further scrape gathers the metrics")
	case code := <-refused:
		if code != http.StatusServiceUnavailable {
			t.Errorf("got status %d", code)
		}
	}
	close(end)
	group.Wait()
}
