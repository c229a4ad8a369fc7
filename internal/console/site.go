package console

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

const (
	// clustersTTL is how long the list of LogClusters is cached.
	clustersTTL = 10 * time.Second
	// siteIdle is how long a LogCluster's console stays open after its last request.
	siteIdle = 10 * time.Minute
)

// Cluster is a LogCluster that a Site serves.
type Cluster struct {
	ClusterName
	// Version changes when the console must be reopened with a new Connection.
	Version string
	Brokers int
	Secured bool
}

// Connection contains a console's connections to a LogCluster.
type Connection struct {
	Fleet *remote.Fleet
	Kafka func() (*kafka.Client, error) // for Options.Kafka
}

// SiteOptions configures a Site.
type SiteOptions struct {
	// List returns the LogClusters.
	List func(ctx context.Context) ([]Cluster, error)
	// Connect connects to a LogCluster that List has returned. It sends no request.
	Connect func(Cluster) (Connection, error)
	// Authority authenticates users; nil: the console does not authenticate users. Then it shows
	// reports to everyone, and messages only to users of this machine.
	Authority Authority
	Loopback  bool         // for Options.Loopback
	Hosts     []string     // for Options.Hosts
	Prefix    string       // for Options.PathPrefix
	Logger    *slog.Logger // default: discards everything
}

// Site is an http.Handler that serves the login page and the consoles of several LogClusters, below
// clusters/NAMESPACE/NAME/. It opens a console at its first request. It closes a console that has
// been idle for siteIdle, or whose LogCluster no longer exists or has another Version.
type Site struct {
	opts    SiteOptions
	handler http.Handler

	mu struct {
		sync.Mutex
		consoles map[ClusterName]*opened
		listed   []Cluster
		moment   time.Time // time at which listed was read
	}
}

// opened is an open console of a LogCluster.
type opened struct {
	console *Console
	version string
	used    time.Time
	active  int // number of running requests
}

// NewSite returns a site. Close releases its connections.
func NewSite(opts SiteOptions) *Site {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Authority != nil {
		opts.Authority = newReviews(opts.Authority)
	}
	s := &Site{opts: opts}
	s.mu.consoles = map[ClusterName]*opened{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	mux.HandleFunc("GET /{$}", s.page(s.list))
	mux.HandleFunc("/clusters/{namespace}/{name}/{rest...}", s.cluster)
	mux.HandleFunc("GET /clusters/{namespace}/{name}", func(w http.ResponseWriter,
		r *http.Request) {
		redirect(w, r.PathValue("name")+"/")
	})
	mux.HandleFunc("/", s.unknown)
	if opts.Authority != nil {
		mux.HandleFunc("GET /login", s.loginForm)
		mux.HandleFunc("POST /login", s.login)
		mux.HandleFunc("POST /logout", s.logout)
	}
	guarded := belowPrefix(opts.Prefix, guard(opts.Hosts, cleanPaths(mux, s.unknown)))
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" { // open to everyone, for probes
			refuse(w, http.StatusOK, "ok")
			return
		}
		guarded.ServeHTTP(w, r)
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close closes all consoles.
func (s *Site) Close() {
	s.mu.Lock()
	consoles := s.mu.consoles
	s.mu.consoles = map[ClusterName]*opened{}
	s.mu.Unlock()
	for _, opened := range consoles {
		opened.console.Close()
	}
}

// page returns a handler for a page that only authenticated users can request.
func (s *Site) page(build func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	if s.opts.Authority == nil {
		return build
	}
	return identified(s.opts.Authority, "login", build)
}

// list serves the page with the LogClusters that the user may see. If there is only one, it
// redirects to that LogCluster's console, unless the parameter list is set.
func (s *Site) list(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	all, err := s.clusters(ctx)
	if err == nil {
		all, err = s.permitted(r, all)
	}
	if err != nil {
		s.render(w, r, view{Template: "fault", Title: "Not available", Body: err.Error(),
			Status: http.StatusServiceUnavailable})
		return
	}
	if len(all) == 1 && r.URL.Query().Get("list") == "" {
		redirect(w, clusterPath(all[0].ClusterName))
		return
	}
	type row struct {
		Cluster
		Link string
	}
	rows := make([]row, 0, len(all))
	for _, cluster := range all {
		rows = append(rows, row{cluster, clusterPath(cluster.ClusterName)})
	}
	s.render(w, r, view{Template: "clusters", Title: "LogClusters", Body: rows})
}

// permitted returns the LogClusters whose reports the user may see.
func (s *Site) permitted(r *http.Request, all []Cluster) ([]Cluster, error) {
	if s.opts.Authority == nil {
		return all, nil
	}
	allowed, faults := make([]bool, len(all)), make([]error, len(all))
	var asked sync.WaitGroup
	for i := range all {
		asked.Go(func() {
			allowed[i], faults[i] = s.opts.Authority.May(r.Context(), callerOf(r).token,
				all[i].ClusterName, ReadReport)
		})
	}
	asked.Wait()
	var found []Cluster
	for i := range all {
		if allowed[i] {
			found = append(found, all[i])
		}
	}
	return found, errors.Join(faults...)
}

// clusters returns the LogClusters, sorted by namespace and name. The list is at most clustersTTL
// old.
func (s *Site) clusters(ctx context.Context) ([]Cluster, error) {
	s.mu.Lock()
	all, moment := s.mu.listed, s.mu.moment
	s.mu.Unlock()
	if age := time.Since(moment); age >= 0 && age < clustersTTL {
		return all, nil
	}
	all, err := s.opts.List(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Cluster) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	s.mu.Lock()
	s.mu.listed, s.mu.moment = all, time.Now()
	ended := s.sweepLocked(time.Now())
	s.mu.Unlock()
	for _, opened := range ended {
		opened.console.Close()
	}
	return all, nil
}

// sweepLocked removes idle consoles and consoles whose LogCluster has changed, and returns them.
func (s *Site) sweepLocked(now time.Time) (ended []*opened) {
	versions := map[ClusterName]string{}
	for _, cluster := range s.mu.listed {
		versions[cluster.ClusterName] = cluster.Version
	}
	for name, opened := range s.mu.consoles {
		version, found := versions[name]
		if idle := opened.active == 0 && now.Sub(opened.used) > siteIdle; !found || idle ||
			version != opened.version {
			delete(s.mu.consoles, name)
			ended = append(ended, opened)
		}
	}
	return ended
}

// cluster serves one LogCluster's console. The response to a user without rights does not reveal
// whether the LogCluster exists.
func (s *Site) cluster(w http.ResponseWriter, r *http.Request) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		name := ClusterName{r.PathValue("namespace"), r.PathValue("name")}
		var entry *opened
		err := s.mayOpen(r, name)
		if err == nil {
			entry, err = s.open(r.Context(), name)
		}
		if err != nil {
			s.render(w, r, s.unopened(err))
			return
		}
		defer s.leave(entry)
		entry.console.ServeHTTP(w, withPath(r, "/"+r.PathValue("rest"), "/"+restOf(r)))
	}
	switch asset, found := strings.CutPrefix(r.PathValue("rest"), "assets/"); {
	case found:
		r.SetPathValue("name", asset)
		serveAsset(w, r)
		return
	case s.opts.Authority == nil:
		serve(w, r)
		return
	}
	identified(s.opts.Authority, upFrom(r)+"login", serve)(w, r)
}

// mayOpen returns nil if the user of a request may see the LogCluster's reports.
func (s *Site) mayOpen(r *http.Request, name ClusterName) error {
	if s.opts.Authority == nil {
		return nil
	}
	return permit(r, s.opts.Authority, name, ReadReport)
}

// leave must be called when a request to the console has ended.
func (s *Site) leave(entry *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.active--
	entry.used = time.Now()
}

// unknown serves the page for paths that do not exist.
func (s *Site) unknown(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, view{Template: "fault", Title: "Not available", Status: http.StatusNotFound,
		Body: "There is no such page."})
}

// restOf returns the part of a request's path below its LogCluster's path, as the browser has sent
// it.
func restOf(r *http.Request) string {
	const segments = 5 // "", clusters, NAMESPACE, NAME, rest
	return strings.SplitN(r.URL.EscapedPath(), "/", segments)[segments-1]
}

// upFrom returns the relative URL that leads from the request's directory to the root.
func upFrom(r *http.Request) string { return strings.Repeat("../", depth(r)) }

// depth returns the number of path segments that lead to the request's directory.
func depth(r *http.Request) int { return strings.Count(r.URL.EscapedPath(), "/") - 1 }

// unopened returns the page for a LogCluster whose console cannot be opened.
func (s *Site) unopened(err error) view {
	status := http.StatusServiceUnavailable
	var known *fault
	if errors.As(err, &known) {
		status = known.status
	}
	return view{Template: "fault", Title: "Not available", Status: status, Body: err.Error()}
}

// open returns a LogCluster's console. The caller must call leave.
func (s *Site) open(ctx context.Context, name ClusterName) (*opened, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(all, func(cluster Cluster) bool { return cluster.ClusterName == name })
	if index < 0 {
		return nil, &fault{status: http.StatusNotFound,
			text: "There is no LogCluster " + name.String() + "."}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if opened := s.mu.consoles[name]; opened != nil {
		opened.active++ // if its version is outdated, clusters will soon remove it
		return opened, nil
	}
	connection, err := s.opts.Connect(all[index])
	if err != nil {
		return nil, err
	}
	pages := New(Options{Cluster: name.Name, LogCluster: name, Fleet: connection.Fleet,
		Kafka: connection.Kafka, Authority: s.opts.Authority, Root: "../../../",
		Loopback: s.opts.Loopback && s.opts.Prefix == "", Hosts: s.opts.Hosts, Logger: s.opts.Logger})
	s.mu.consoles[name] = &opened{console: pages, version: all[index].Version, active: 1}
	return s.mu.consoles[name], nil
}

// render writes a page of the site.
func (s *Site) render(w http.ResponseWriter, r *http.Request, v view) {
	v.Site, v.Base = true, upFrom(r)
	writePage(w, r, v, s.opts.Logger)
}
