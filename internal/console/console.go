package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// requestTimeout limits the time from a request's header to the end of its response. The stream of
// live updates has no limit.
const requestTimeout = 30 * time.Second

// Options configures a Console.
type Options struct {
	// Cluster is the cluster name shown in the page header; it may be empty.
	Cluster string
	// Fleet requests the brokers' reports over HTTP.
	Fleet *remote.Fleet
	// Kafka connects to the brokers over the Kafka protocol. The console calls it once, before the
	// first page that needs the connection. After an error, which contains the remedy, the console
	// calls it again for the next page.
	Kafka func() (*kafka.Client, error)
	// Authority authenticates and authorizes users. If it is nil, the console does not authenticate
	// users, and Loopback, Hosts and PathPrefix determine what they may do.
	Authority Authority
	// LogCluster is the LogCluster on which Authority checks rights.
	LogCluster ClusterName
	// Root is the relative URL of the Site that contains this console, such as ../; "": there is no
	// Site.
	Root string
	// Clean requests a pass over a topic if there is no Authority. By default, the request is sent
	// through Fleet.
	Clean func(ctx context.Context, topic string) error
	// May reports whether the user of this machine has a right. It is only used to display the rights
	// in the page header, and not with an Authority. If it is nil, the user has every right.
	May func(ctx context.Context, right Right) (bool, error)
	// Loopback is true if the console listens on a loopback address. Otherwise the console shows no
	// messages and accepts no writes, unless it has an Authority.
	Loopback bool
	// Hosts contains the names under which the console may be opened, in lower case, in addition to
	// addresses and localhost. If Hosts or PathPrefix is set, the console is behind a proxy that any
	// user may be able to reach. Without an Authority it then shows no messages and accepts no writes.
	Hosts []string
	// PathPrefix is the path below which a proxy serves the console, such as /heartwood, if the proxy
	// does not remove it. Requests without the prefix are also served.
	PathPrefix string
	Logger     *slog.Logger // default: discards everything
}

// Console is an http.Handler that serves the console at the root path.
type Console struct {
	opts    Options
	handler http.Handler
	watches watches
	viewers chan struct{} // with one element for each open stream of updates

	mu struct {
		sync.Mutex
		kafka  *kafka.Client // nil before the first use
		closed bool
	}
}

// New returns a console. Close releases its connections.
func New(opts Options) *Console {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.PathPrefix = strings.TrimSuffix(opts.PathPrefix, "/")
	c := &Console{opts: opts, viewers: make(chan struct{}, viewersMax)}
	c.watches.fleet = opts.Fleet
	c.handler = belowPrefix(opts.PathPrefix, guard(opts.Hosts, c.authorized(c.routes())))
	return c
}

// Close ends all watches of topics and closes the connections to the brokers. The stream of a page
// ends with the page's connection.
func (c *Console) Close() {
	c.watches.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	if c.mu.kafka != nil {
		c.mu.kafka.Close()
		c.mu.kafka = nil
	}
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// belowPrefix serves next both at the root and below the prefix.
func belowPrefix(prefix string, next http.Handler) http.Handler {
	if prefix = strings.TrimSuffix(prefix, "/"); prefix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, below := strings.CutPrefix(r.URL.Path, prefix)
		switch {
		case below && rest == "":
			// The location is relative, because a proxy may have removed a part of the path.
			redirect(w, prefix[strings.LastIndex(prefix, "/")+1:]+"/")
			return
		case below && strings.HasPrefix(rest, "/"):
			r = withPath(r, rest, strings.TrimPrefix(r.URL.RawPath, prefix))
		}
		next.ServeHTTP(w, r)
	})
}

// withPath returns the request with another path. path is the decoded path, and raw is the path as
// sent by the browser.
func withPath(r *http.Request, path, raw string) *http.Request {
	request := r.Clone(r.Context())
	request.URL.Path, request.URL.RawPath = path, raw
	return request
}

// cleanPaths passes a request to mux only if its path has no empty segments. For other paths,
// http.ServeMux would send an absolute redirect, which is wrong if the console is served below
// another path.
func cleanPaths(mux http.Handler, unknown http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "//") {
			unknown(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// redirect sends the browser to a relative location. http.Redirect would use the request's path to
// make the location absolute, but a proxy may have removed a part of that path.
func redirect(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// routes returns a handler for all pages.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, page := range map[string]func(*http.Request) (view, error){
		"GET /{$}":     c.overview,
		"GET /topics":  c.topics,
		"GET /topic":   c.topic,
		"GET /message": c.message,
		"GET /groups":  c.groups,
		"GET /group":   c.group,
		"GET /brokers": c.brokers,
		"GET /map":     c.cleanerMap,
		"GET /segment": c.segment,
		"GET /replay":  c.replay,
		"GET /clean":   c.cleanForm,
		"GET /users":   c.users,

		"GET /transactions": c.transactions,
		"GET /transaction":  c.transaction,
	} {
		mux.HandleFunc(pattern, c.page(page))
	}
	for path, action := range c.actions() {
		mux.HandleFunc("GET "+path, c.page(c.get(action)))
		mux.HandleFunc("POST "+path, c.post(action))
	}
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	mux.HandleFunc("GET /live", c.live)
	mux.HandleFunc("GET /tail", c.tail)
	mux.HandleFunc("GET /download", c.download)
	mux.HandleFunc("GET /frames", c.frames)
	mux.HandleFunc("POST /clean", c.clean)
	mux.HandleFunc("/", c.page(unknownPage))
	return cleanPaths(mux, c.page(unknownPage))
}

func unknownPage(r *http.Request) (view, error) {
	return view{}, &fault{status: http.StatusNotFound, text: "There is no such page.",
		cause: errors.New(r.Method + " " + r.URL.Path)}
}

// fault is an error that a page shows, with the response's status.
type fault struct {
	status int
	text   string // one sentence: what happened and what to do
	cause  error  // optional
}

func (f *fault) Error() string {
	if f.cause == nil {
		return f.text
	}
	return f.text + " (" + f.cause.Error() + ")"
}

func (f *fault) Unwrap() error { return f.cause }

// page returns a handler for a page that build creates.
func (c *Console) page(build func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		deadline := time.Now().Add(requestTimeout)
		// The calls fail only if w is not a connection, as in tests.
		_, _ = control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline)
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		v, err := build(r.WithContext(ctx))
		if err != nil {
			v = c.failed(r, err)
		}
		c.render(w, r, v)
	}
}

// failed returns the page that shows an error.
func (c *Console) failed(r *http.Request, err error) view {
	return view{Template: "fault", Title: "Not available", Status: statusOfError(err),
		Page: pageOf(r), Body: err.Error()}
}

// statusOfError returns the status of the page that shows an error. The status of a fault is its
// own, and the status of a broker's response with 404 or 403 is kept. The status of any other error
// is 502, because it is an error of the cluster.
func statusOfError(err error) int {
	var known *fault
	if errors.As(err, &known) {
		return known.status
	}
	switch {
	case errors.Is(err, kafka.ErrBusy):
		return http.StatusServiceUnavailable
	case kafka.Unknown(err):
		return http.StatusNotFound
	case kafka.Denied(err):
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// kafka returns the connection that uses the Kafka protocol.
func (c *Console) kafka() (*kafka.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.kafka != nil {
		return c.mu.kafka, nil
	}
	if c.mu.closed {
		return nil, &fault{status: http.StatusServiceUnavailable,
			text: "The console reconnects to the LogCluster; try again."}
	}
	if c.opts.Kafka == nil {
		return nil, &fault{status: http.StatusNotImplemented,
			text: "This page needs the Kafka protocol: start the console with --bootstrap."}
	}
	client, err := c.opts.Kafka()
	if err != nil {
		return nil, &fault{status: http.StatusServiceUnavailable, text: "This page is not available.",
			cause: err}
	}
	c.mu.kafka = client
	return client, nil
}
