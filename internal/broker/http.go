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

// HTTPOptions of NewHTTP. Funcs, so that one broker and several in one process look the same, and
// so that the server can answer while the brokers still recover their logs.
type HTTPOptions struct {
	Gatherer prometheus.Gatherer
	Ready    func() error // nil once every broker is ready; the error is shown
	// what is wrong although they are ready; "": nothing. nil: the same
	Detail     func() string
	Partitions func() []report.Partition // of every broker; in any order
	Topics     func() summary.Topics
	// Brokers.CleanNow
	CleanNow func(topic string, partitions []int32) (report.CleanRequests, error)
}

// HTTPOf are the options for brokers; none are there while they start.
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

// NewHTTP returns the handler of a broker's HTTP port; docs/http.md describes it:
//
//	GET  /metrics                       Prometheus
//	GET  /healthz                       200 while the process is up
//	GET  /readyz                        200 when ready, else 503 with the reason
//	GET  /api/v1/partitions             a row a partition replica; ?topic=NAME, also several times, picks topics
//	GET  /api/v1/topics                 a row a topic: its partitions summed up; ?topic=NAME as above
//	POST /api/v1/topics/NAME/clean      asks for a pass of the cleaner; ?partition=N, also several times, picks partitions
//
// What is not there is answered with JSON as well: {"error": "..."}. A web page that a browser
// shows from elsewhere cannot POST.
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
			report.Partitions{Partitions: pick(opts.Partitions(), r.URL.Query()["topic"])})
	})
	mux.HandleFunc("GET /api/v1/topics", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, pickTopics(opts.Topics(), r.URL.Query()["topic"]))
	})
	mux.HandleFunc("POST /api/v1/topics/{topic}/clean",
		func(w http.ResponseWriter, r *http.Request) {
			cleanNowHTTP(w, r, opts.CleanNow)
		})
	// Also what has a path above but another method: a catch-all takes it before the mux would
	// answer 405 in plain text.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusNotFound,
			report.Failure{Error: "nothing at " + r.Method + " " + r.URL.Path, Reason: "NotFound"})
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusForbidden,
			report.Failure{Error: "requests of web pages from elsewhere are refused",
				Reason: "Forbidden"})
	}))
	return protection.Handler(mux)
}

// cleanNowHTTP answers 202 with the requests that the cleaner took, or why it took none. No body is
// read: the address says it all.
func cleanNowHTTP(w http.ResponseWriter, r *http.Request,
	cleanNow func(string, []int32) (report.CleanRequests, error)) {
	var partitions []int32
	for _, text := range r.URL.Query()["partition"] {
		index, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			respond(w, http.StatusBadRequest,
				report.Failure{Error: fmt.Sprintf("partition %q is no number", text),
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

// pickTopics returns those of some names, all if there are none.
func pickTopics(all summary.Topics, names []string) summary.Topics {
	if len(names) == 0 {
		return all
	}
	picked := summary.Topics{Topics: []summary.Topic{}}
	for _, topic := range all.Topics {
		if slices.Contains(names, topic.Topic) {
			picked.Topics = append(picked.Topics, topic)
		}
	}
	return picked
}

// pick returns the rows of topics, all if there are none, sorted. It never returns nil, which would
// be null in JSON.
func pick(rows []report.Partition, topics []string) []report.Partition {
	picked := make([]report.Partition, 0, len(rows))
	for _, row := range rows {
		if len(topics) == 0 || slices.Contains(topics, row.Topic) {
			picked = append(picked, row)
		}
	}
	slices.SortStableFunc(picked, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Broker, b.Broker))
	})
	return picked
}
