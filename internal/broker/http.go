package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
)

// HTTPOptions configure NewHTTP. They are functions so that the server answers while the brokers
// still recover their logs, and so that one broker and several look the same.
type HTTPOptions struct {
	Gatherer prometheus.Gatherer
	Ready    func() error // nil once every broker is ready; the error is part of the response
	// Detail describes what is degraded although all brokers are ready, or returns ""; may be nil.
	Detail     func() string
	Partitions func() []report.Partition // of every broker, in any order
	Topics     func() summary.Topics
	// Brokers.CleanNow
	CleanNow func(topic string, partitions []int32) (report.CleanRequests, error)
}

// HTTPOf returns the options for brokers; the list is empty while they start.
func HTTPOf(gatherer prometheus.Gatherer, ready func() error, brokers func() Brokers) HTTPOptions {
	return HTTPOptions{
		Gatherer: gatherer, Ready: ready,
		Partitions: func() []report.Partition { return brokers().Report() },
		Topics:     func() summary.Topics { return brokers().Topics(time.Now()) },
		CleanNow: func(topic string, partitions []int32) (report.CleanRequests, error) {
			return brokers().CleanNow(topic, partitions)
		},
	}
}

// NewHTTP returns the handler of a broker's HTTP port (docs/http.md):
//
//	GET  /metrics                   Prometheus
//	GET  /healthz                   200 while the process is up
//	GET  /readyz                    200 when ready, else 503 with the reason
//	GET  /api/v1/partitions         one row for each replica; ?topic=NAME, repeatable, filters
//	GET  /api/v1/topics             one row for each topic; ?topic=NAME, repeatable, filters
//	POST /api/v1/topics/NAME/clean  requests a cleaner pass; ?partition=N, repeatable, filters
//
// Unknown paths are answered with JSON as well: {"error": "..."}. Cross-origin requests of browsers
// cannot POST.
func NewHTTP(opts HTTPOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics",
		promhttp.HandlerFor(opts.Gatherer,
			promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, status{Status: "up"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := opts.Ready(); err != nil {
			respond(w, http.StatusServiceUnavailable,
				report.Failure{Error: "not ready: " + err.Error(), Reason: "NotReady"})
			return
		}
		answer := status{Status: "ready"}
		if opts.Detail != nil {
			answer.Detail = opts.Detail()
		}
		respond(w, http.StatusOK, answer)
	})
	mux.HandleFunc("GET /api/v1/partitions", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK,
			report.Partitions{Partitions: filterRows(opts.Partitions(), r.URL.Query()["topic"])})
	})
	mux.HandleFunc("GET /api/v1/topics", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, filterTopics(opts.Topics(), r.URL.Query()["topic"]))
	})
	mux.HandleFunc("POST /api/v1/topics/{topic}/clean",
		func(w http.ResponseWriter, r *http.Request) {
			cleanNowHTTP(w, r, opts.CleanNow)
		})
	// This catch-all also matches known paths with another method, which the mux would answer with
	// 405 in plain text.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusNotFound,
			report.Failure{Error: "not found: " + r.Method + " " + r.URL.Path, Reason: "NotFound"})
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusForbidden,
			report.Failure{Error: "cross-origin requests are rejected",
				Reason: "Forbidden"})
	}))
	return protection.Handler(mux)
}

// cleanNowHTTP answers 202 with the requests that the cleaner accepted, or the reason why it
// accepted none. The request body is ignored.
func cleanNowHTTP(w http.ResponseWriter, r *http.Request,
	cleanNow func(string, []int32) (report.CleanRequests, error)) {
	var partitions []int32
	for _, text := range r.URL.Query()["partition"] {
		index, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			respond(w, http.StatusBadRequest,
				report.Failure{Error: fmt.Sprintf("partition %q is not a number", text),
					Reason: "BadRequest"})
			return
		}
		partitions = append(partitions, int32(index))
	}
	answer, err := cleanNow(r.PathValue("topic"), partitions)
	if err == nil {
		respond(w, http.StatusAccepted, answer)
		return
	}
	for _, known := range []struct {
		err    error
		code   int
		reason string
	}{
		{ErrUnknownTopic, http.StatusNotFound, "UnknownTopic"},
		{ErrUnknownPartition, http.StatusNotFound, "UnknownPartition"},
		{ErrStarting, http.StatusServiceUnavailable, "NotReady"},
		{cleaner.ErrNotCompacted, http.StatusConflict, "NotCompacted"},
		{cleaner.ErrDisabled, http.StatusConflict, "CleanerDisabled"},
		{nil, http.StatusInternalServerError, "Failed"},
	} {
		if known.err == nil || errors.Is(err, known.err) {
			respond(w, known.code, report.Failure{Error: err.Error(), Reason: known.reason})
			return
		}
	}
}

type status struct {
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client went away
}

// filterTopics returns the topics of the given names, all if there are none.
func filterTopics(all summary.Topics, names []string) summary.Topics {
	if len(names) == 0 {
		return all
	}
	filtered := summary.Topics{Topics: []summary.Topic{}}
	for _, topic := range all.Topics {
		if slices.Contains(names, topic.Topic) {
			filtered.Topics = append(filtered.Topics, topic)
		}
	}
	return filtered
}

// filterRows returns the rows of topics, all if there are none, sorted. It never returns nil, which
// would be null in JSON.
func filterRows(rows []report.Partition, topics []string) []report.Partition {
	filtered := make([]report.Partition, 0, len(rows))
	for _, row := range rows {
		if len(topics) == 0 || slices.Contains(topics, row.Topic) {
			filtered = append(filtered, row)
		}
	}
	slices.SortStableFunc(filtered, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Broker, b.Broker))
	})
	return filtered
}
