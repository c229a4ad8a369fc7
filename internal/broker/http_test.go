package broker

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
)

func get(t *testing.T, handler http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return recorder
}

func TestHTTPHealthAndReadiness(t *testing.T) {
	var notReady error
	handler := NewHTTP(HTTPOptions{Gatherer: prometheus.NewRegistry(), Ready: func() error { return notReady }})
	notReady = errors.New("waits for the cluster's metadata")
	if r := get(t, handler, "GET", "/readyz"); r.Code != http.StatusServiceUnavailable || !strings.Contains(r.Body.String(), notReady.Error()) {
		t.Errorf("not ready: %d %s", r.Code, r.Body)
	}
	if r := get(t, handler, "GET", "/healthz"); r.Code != http.StatusOK {
		t.Errorf("healthz while not ready: %d; a restart would not help", r.Code)
	}
	notReady = nil
	if r := get(t, handler, "GET", "/readyz"); r.Code != http.StatusOK {
		t.Errorf("ready: %d %s", r.Code, r.Body)
	}
}

func TestHTTPPartitionsAreSortedAndFiltered(t *testing.T) {
	rows := []report.Partition{
		{Broker: 1, Topic: "b", Partition: 10}, {Broker: 1, Topic: "b", Partition: 9}, {Broker: 2, Topic: "a"}, {Broker: 0, Topic: "a"},
		{Topic: "c"},
	}
	handler := NewHTTP(HTTPOptions{Gatherer: prometheus.NewRegistry(), Partitions: func() []report.Partition { return rows }})
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
			t.Errorf("%q: %v, want %s", query, got, want)
		}
		if strings.Contains(r.Body.String(), "null") {
			t.Errorf("%q: null where a list is promised: %s", query, r.Body)
		}
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func TestHTTPServesMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "heartwood_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	r := get(t, NewHTTP(HTTPOptions{Gatherer: registry}), "GET", "/metrics")
	if r.Code != http.StatusOK || !strings.Contains(r.Body.String(), "heartwood_test_total 3") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// TestHTTPElsewhereIsJSON: also for a method that a path does not take.
func TestHTTPElsewhereIsJSON(t *testing.T) {
	handler := NewHTTP(HTTPOptions{Gatherer: prometheus.NewRegistry()})
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/api/v1/nothing"}, {"POST", "/api/v1/partitions"}, {"DELETE", "/metrics"}} {
		r := get(t, handler, c[0], c[1])
		var answer struct{ Error string }
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != http.StatusNotFound || !strings.Contains(answer.Error, c[1]) {
			t.Errorf("%s %s: %d %s: %v", c[0], c[1], r.Code, r.Body, err)
		}
		if kind := r.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %s: content type %s", c[0], c[1], kind)
		}
	}
}
