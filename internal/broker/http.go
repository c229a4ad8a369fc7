package broker

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heartwood.dev/heartwood/api/report"
)

// HTTPOptions of NewHTTP. Funcs, so that one broker and several in one process look the same, and so that the server can answer
// while the brokers still recover their logs.
type HTTPOptions struct {
	Gatherer   prometheus.Gatherer
	Ready      func() error              // nil once every broker is ready; the error is shown
	Partitions func() []report.Partition // of every broker; in any order
}

// NewHTTP returns the handler of a broker's HTTP port:
//
//	/metrics               Prometheus
//	/healthz               200 while the process is up
//	/readyz                200 when ready, else 503 with the reason
//	/api/v1/partitions     a row a partition replica; ?topic=NAME, also several times, picks topics
//
// What is not there is answered with JSON as well: {"error": "..."}.
func NewHTTP(opts HTTPOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, status{Status: "up"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := opts.Ready(); err != nil {
			respond(w, http.StatusServiceUnavailable, failure{Error: "not ready: " + err.Error()})
			return
		}
		respond(w, http.StatusOK, status{Status: "ready"})
	})
	mux.HandleFunc("GET /api/v1/partitions", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, report.Partitions{Partitions: pick(opts.Partitions(), r.URL.Query()["topic"])})
	})
	// Also what has a path above but another method: a catch-all takes it before the mux would answer 405 in plain text.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusNotFound, failure{Error: "nothing at " + r.Method + " " + r.URL.Path})
	})
	return mux
}

type status struct {
	Status string `json:"status"`
}

type failure struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client went away
}

// pick returns the rows of topics, all if there are none, sorted. It never returns nil, which would be null in JSON.
func pick(rows []report.Partition, topics []string) []report.Partition {
	picked := make([]report.Partition, 0, len(rows))
	for _, row := range rows {
		if len(topics) == 0 || slices.Contains(topics, row.Topic) {
			picked = append(picked, row)
		}
	}
	slices.SortStableFunc(picked, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Broker, b.Broker))
	})
	return picked
}
