package httpport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/access"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
)

const (
	// requestTimeout limits the time from a request's header to the end of its response. A client that
	// does not read thus cannot keep the response in memory for longer. Requests for profiles have no
	// limit, because the client chooses the duration.
	requestTimeout = 30 * time.Second
	// scrapesMax limits concurrent requests for metrics, because each of them gathers all metrics.
	scrapesMax = 10
)

// Options configures New. The fields are functions, because the server already responds while the
// brokers recover their logs, and must not depend on the number of brokers.
type Options struct {
	Gatherer prometheus.Gatherer
	Ready    func() error // returns nil once every broker is ready; the response contains the error
	// Detail describes what is degraded although all brokers are ready. It returns "" if nothing is,
	// and may be nil.
	Detail     func() string
	Partitions func() []report.Partition // rows of all brokers, in any order
	Topics     func() summary.Topics
	Placement  func(topics []string) report.Placement     // for the given topics, or for all topics
	MayStop    func(broker int32) (report.MayStop, error) // Brokers.MayStop
	// CleanNow calls Brokers.CleanNow.
	CleanNow func(topic string, partitions []int32) (report.CleanRequests, error)
	// ScrubNow calls Brokers.ScrubNow.
	ScrubNow func(topic string) (report.ScrubRequests, error)
	// Transactions returns the brokers that the transaction endpoints use, or none while the brokers
	// start.
	Transactions func() Transactions
	// Brokers returns the brokers that the other endpoints use, or none while the brokers start.
	Brokers func() Brokers
	Pprof   bool // serve profiles (NewPprof)
	// Gate decides whether a request is admitted. If it is nil, all requests are admitted.
	Gate *access.Gate
}

// New returns the handler of the HTTP port. Responses for unknown paths are JSON too: {"error":
// "..."}. The handler rejects POST requests that a browser sends from another origin.
func New(opts Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics",
		promhttp.HandlerFor(opts.Gatherer,
			promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
				MaxRequestsInFlight: scrapesMax}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, status{Status: "up"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		readyHTTP(w, r, &opts)
	})
	mux.HandleFunc("GET /api/v1/partitions", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK,
			report.Partitions{Partitions: filterRows(opts.Partitions(), r.URL.Query()["topic"])})
	})
	mux.HandleFunc("GET /api/v1/topics", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, filterTopics(opts.Topics(), r.URL.Query()["topic"]))
	})
	mux.HandleFunc("GET /api/v1/placement", func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, opts.Placement(r.URL.Query()["topic"]))
	})
	mux.HandleFunc("GET /api/v1/may-stop/{broker}",
		func(w http.ResponseWriter, r *http.Request) { mayStopHTTP(w, r, opts.MayStop) })
	mux.HandleFunc("POST /api/v1/topics/{topic}/clean",
		func(w http.ResponseWriter, r *http.Request) {
			cleanNowHTTP(w, r, opts.CleanNow)
		})
	handleTransactions(mux, opts.Transactions)
	handleSegments(mux, opts.Brokers)
	handlePasses(mux, opts.Brokers)
	handleEvents(mux, opts.Brokers)
	handleKeys(mux, opts.Brokers)
	handleReplicas(mux, opts.Brokers)
	handleRetained(mux, opts.Brokers)
	handleVolumes(mux, opts.Brokers)
	handleScrub(mux, opts)
	handleFailingClients(mux, opts.Brokers)
	if opts.Pprof {
		mux.Handle(PprofPath, withDeadline(0, NewPprof()))
	}
	// This catch-all also handles unsupported methods of known paths. Without it, the mux would
	// respond with 405 in plain text.
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
	handler := protection.Handler(mux)
	if opts.Gate != nil {
		handler = opts.Gate.Handler(handler)
	}
	return withDeadline(requestTimeout, handler)
}

// withDeadline limits the time to receive the rest of a request and send the response. A limit of 0
// means no limit.
func withDeadline(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var deadline time.Time
		if limit > 0 {
			deadline = time.Now().Add(limit)
		}
		control := http.NewResponseController(w)
		// The calls fail only if w is not a connection, as in tests.
		_, _ = control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline)
		next.ServeHTTP(w, r)
	})
}

// readyHTTP responds with the readiness of the brokers. If they are not ready, authorized clients
// also receive the reason. A broker that rejects records because its volume is almost full remains
// ready: it still serves consumers, and frees space by cleaning and deletions.
func readyHTTP(w http.ResponseWriter, r *http.Request, opts *Options) {
	detailed := access.Detailed(r)
	if err := opts.Ready(); err != nil {
		text := "not ready"
		if detailed {
			text += ": " + err.Error()
		}
		respond(w, http.StatusServiceUnavailable, report.Failure{Error: text, Reason: "NotReady"})
		return
	}
	answer := status{Status: "ready"}
	if detailed {
		answer.Detail = detail(opts)
	}
	respond(w, http.StatusOK, answer)
}

// detail describes what is degraded although all brokers are ready, including volumes that are
// almost full. It returns "" if nothing is degraded.
func detail(opts *Options) string {
	var texts []string
	if opts.Detail != nil {
		if text := opts.Detail(); text != "" {
			texts = append(texts, text)
		}
	}
	if opts.Brokers != nil {
		texts = append(texts, opts.Brokers().refusals()...)
	}
	return strings.Join(texts, "; ")
}

// cleanNowHTTP responds with status 202 and the requests that the cleaner accepted. If CleanNow
// fails, it responds with the error. It ignores the request body.
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
	respondAccepted(w, answer, err)
}

// respondAccepted responds with status 202 and the accepted requests, or with the error.
func respondAccepted(w http.ResponseWriter, answer any, err error) {
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
		{ErrScrubOff, http.StatusConflict, "ScrubOff"},
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
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}

// filterTopics returns the topics with the given names, or all topics if names is empty.
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

// filterRows returns the rows of the given topics, sorted, or all rows if topics is empty. It never
// returns nil, which JSON would encode as null.
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
