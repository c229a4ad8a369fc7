package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	lockFile     = ".lock"
	metadataFile = "metadata.json"
)

// slowStart is how long a start waits for brokers and partitions before it logs a warning.
const slowStart = 10 * time.Second

// headerTimeout limits the time until an HTTP request's header has been received.
const headerTimeout = 10 * time.Second

// Run runs a development cluster until ctx ends. Errors in options and manifests wrap ErrUsage.
func Run(ctx context.Context, opts Options) (err error) {
	opts = opts.withDefaults()
	c := &cluster{opts: opts, fs: vfs.OS{}, announced: map[string]string{},
		warned: map[string]bool{}}
	if c.listen, err = parseAddress("listen", opts.Listen); err != nil {
		return err
	}
	if c.advertise, err = parseAdvertise(opts.Advertise, c.listen); err != nil {
		return err
	}
	if c.http, err = parseAddress("http", opts.HTTP); err != nil {
		return err
	}
	if opts.Pprof && !c.http.loopback() {
		// Profiles need a loopback address, because the HTTP port has no authentication.
		return usage(fmt.Errorf("--pprof with --http %s: profiles are served on a loopback address "+
			"only, such as 127.0.0.1:9644", c.http))
	}
	if opts.Brokers < 0 {
		return usage(fmt.Errorf("--brokers %d: want at least 1", opts.Brokers))
	}
	// Start watching before reading the manifests, so that no change is missed.
	if c.watcher, err = watch(opts.Manifests, opts.Logger); err != nil {
		return err
	}
	defer c.watcher.Close()
	unlock, err := c.open()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.run(ctx); err != nil {
		return err
	}
	c.print("stopped data=" + opts.DataDir)
	return nil
}

// cluster is the state of Run.
type cluster struct {
	opts   Options
	fs     vfs.FS
	listen address
	http   address
	// advertise is the address at which clients reach broker 0; the zero value: the address in listen.
	advertise address
	watcher   *watcher
	store     *local.Store
	initial   state // the state requested at the start
	current   state // the last state that was applied
	// security is nil if no broker needs certificates. In that case no client authenticates.
	security  *security
	announced map[string]string              // printed line of each user
	warned    map[string]bool                // texts of ignored that were already logged
	brokers   atomic.Pointer[broker.Brokers] // set once all brokers are open

	sources  sources   // file of each resource
	removals removals  // resources without a manifest, to be removed when due
	kept     []absence // resources that remain without a manifest
	// removalIn is the time until removals must be evaluated again; 0: no evaluation is necessary.
	removalIn time.Duration

	reported string // text of the last logged faults and kept resources
}

// open validates the manifests, locks the data directory, and applies the manifests to the
// metadata.
func (c *cluster) open() (unlock func(), err error) {
	set, err := loadManifests(c.opts.Manifests)
	if err != nil {
		return nil, usage(c.withoutManifests(err))
	}
	if err := c.fs.MkdirAll(c.opts.DataDir); err != nil {
		return nil, usage(fmt.Errorf("--data-dir: %w", err))
	}
	lock, err := c.fs.Lock(filepath.Join(c.opts.DataDir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, usage(
			fmt.Errorf("--data-dir %s is locked: another heartwood process uses it; stop that process, "+
				"or choose another --data-dir", c.opts.DataDir),
		)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("--data-dir: %w", err))
	}
	if err := c.openMetadata(set); err != nil {
		_ = lock.Close() // the first error is the cause
		return nil, err
	}
	return func() {
		c.store.Close()
		_ = lock.Close()
	}, nil
}

// withoutManifests adds to an error at the start how the cluster can be started while a manifest is
// missing.
func (c *cluster) withoutManifests(fault error) error {
	_, absent := c.fs.Stat(filepath.Join(c.opts.DataDir, metadataFile))
	missing := slices.ContainsFunc(c.opts.Manifests, func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if absent != nil || !missing {
		return fault
	}
	return fmt.Errorf("%w\nwithout -f, heartwood dev runs with the topics in --data-dir %s", fault,
		c.opts.DataDir)
}

// openMetadata opens the metadata store, validates flags and manifests against its content, and
// applies the manifests.
func (c *cluster) openMetadata(set *manifest.Set) (err error) {
	file := filepath.Join(c.opts.DataDir, metadataFile)
	c.warnIfLost(file)
	if c.store, err = local.Open(c.fs, file); err != nil {
		return fmt.Errorf("%w\nrestore the file from a copy; or move it away: then the topics of the "+
			"manifests adopt the existing records under new topic ids", err)
	}
	c.store.CheckClusters(manifest.CheckCluster)
	if c.sources, err = readSources(c.fs, filepath.Join(c.opts.DataDir, sourcesFile)); err != nil {
		c.opts.Logger.Warn("failed to read which manifests contained the topics; a topic that the "+
			"manifests do not contain stays", "error", err)
	}
	if c.initial, err = c.nextState(set, time.Now()); err != nil {
		return err
	}
	if err := c.initial.revertInvalidUpdates(c.store); err != nil {
		return usage(err)
	}
	running := max(c.initial.brokers, c.store.Running())
	for _, a := range []address{c.listen, c.advertise} {
		if a == (address{}) {
			continue
		}
		if err := a.forBrokers(running, len(c.initial.listeners())); err != nil {
			return err
		}
	}
	c.current = c.initial
	if c.initial.secured() {
		if c.security, err = openSecurity(c.opts.DataDir, c.initial.clusterName(),
			listenerHosts(c.listen, c.advertise), running); err != nil {
			return fmt.Errorf("open the certificates in %s: %w", c.opts.DataDir, err)
		}
		if err := c.security.update(c.initial.listeners()); err != nil {
			return err
		}
	}
	if err := c.store.SetRacks(c.opts.Racks); err != nil {
		return err
	}
	err = c.initial.sync(c.store, c.security)
	if err != nil && !errors.Is(err, local.ErrNotWritten) {
		return usage(err)
	}
	return err
}

// warnIfLost logs a warning if there are logs but no metadata. The start continues: new topics
// adopt the logs with their names, and no log is deleted (ADR 0028).
func (c *cluster) warnIfLost(file string) {
	_, missing := c.fs.Stat(file)
	_, logs := c.fs.Stat(c.brokerDir(0))
	if errors.Is(missing, fs.ErrNotExist) && logs == nil {
		c.opts.Logger.Warn("metadata file is missing; starting without topics: a new topic adopts the "+
			"existing records of its name, and all other records are retained", "file", file)
	}
}

// brokerDir returns broker i's data directory.
func (c *cluster) brokerDir(i int) string {
	return filepath.Join(c.opts.DataDir, "broker-"+strconv.Itoa(i))
}

// run runs the HTTP server and the brokers until ctx ends, and then returns nil. The HTTP server
// starts first and stops last, so that /readyz reports the brokers' state while they start and
// stop.
func (c *cluster) run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.http.String())
	if err != nil {
		return listenFault("http", err)
	}
	options := broker.HTTPOf(registry, c.ready, c.all)
	options.Pprof = c.opts.Pprof
	handler := httpport.New(options)
	if c.opts.Processes {
		handler = c.redirectAPI(handler)
	}
	pages := c.newConsole(listener.Addr().String())
	defer pages.Close()
	server := &http.Server{
		Handler: guard(c.http, c.opts.Hosts,
			withConsole(pages, withoutRecords(c.http, handler))),
		ReadHeaderTimeout: headerTimeout,
	}
	var serving errgroup.Group
	serving.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	err = c.runBrokers(ctx, registry, listener.Addr().String())
	_ = server.Close() // closes connections
	return errors.Join(err, serving.Wait())
}

// listenFault converts an error to a usage error if another address in the flag can avoid it.
func listenFault(flag string, err error) error {
	for _, fault := range []error{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.EACCES} {
		var failed *net.OpError
		if errors.Is(err, fault) && errors.As(err, &failed) {
			return usage(fmt.Errorf("%w; choose another --%s", err, flag))
		}
	}
	var unknownHost *net.DNSError
	if errors.As(err, &unknownHost) {
		return usage(fmt.Errorf("--%s: %w", flag, err))
	}
	return err
}

// announce prints a line for each topic, a line for each offline partition, and then the ready
// line. The ready line must be the last line of the start, because scripts wait for it.
func (c *cluster) announce(bootstrap []string, httpAddress string) {
	for _, topic := range c.store.Image().Topics {
		c.print(topicLine(topic))
	}
	c.announceLost()
	c.warnKept()
	c.reported = c.keptText()
	c.announceSecurity(&c.initial)
	c.print(readyLine(bootstrap, httpAddress, c.opts.DataDir))
}

// print writes a line to the output. It ignores write errors.
func (c *cluster) print(line string) { _, _ = fmt.Fprintln(c.opts.Out, line) }

// follow applies the manifests after each possible change, until ctx ends. It runs in Run's
// goroutine, so manifests are never applied concurrently. If manifests change while they are being
// applied, they are applied again.
func (c *cluster) follow(ctx context.Context) {
	renewal := time.NewTicker(secureInterval)
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.watcher.changes:
			c.apply()
		case <-c.removalDue():
			c.apply()
		case <-renewal.C:
			c.renew()
		}
	}
}

// removalDue returns a channel that receives a value when resources may have to be removed. It
// returns nil if no resource waits for removal.
func (c *cluster) removalDue() <-chan time.Time {
	if c.removalIn == 0 {
		return nil
	}
	return time.After(c.removalIn)
}

// apply applies the current manifests except for invalid changes, prints the topics that changed,
// and logs the faults.
func (c *cluster) apply() {
	before := c.store.Image()
	cluster, _, _ := c.store.Manifests()
	fault := c.applyManifests()
	after, _, _ := c.store.Manifests()
	if line := clusterLine(cluster, after); line != "" {
		c.print(line)
	}
	for _, line := range changedLines(before, c.store.Image()) {
		c.print(line)
	}
	c.report(fault)
}

// report logs the faults in manifests and the kept resources if they have changed. It prints a line
// when there are no more faults.
func (c *cluster) report(fault error) {
	text := c.keptText()
	if fault != nil {
		text += fault.Error()
	}
	switch {
	case text == c.reported:
		return
	case text == "":
		c.print("manifests applied")
	default:
		for _, one := range faults(fault) {
			c.opts.Logger.Error("failed to apply manifest", "error", one)
		}
		c.warnKept()
	}
	c.reported = text
}

// applyManifests applies the manifests. It omits changes that are invalid or impossible while the
// cluster runs, and returns all faults.
func (c *cluster) applyManifests() error {
	set, err := loadManifests(c.opts.Manifests)
	if err != nil {
		return errors.Join(err, c.keepUnread(err))
	}
	next, err := c.nextState(set, time.Now())
	if err != nil {
		return err
	}
	err = errors.Join(next.revertBrokers(c.initial.brokers), next.revertListeners(&c.initial),
		next.revertInvalidUpdates(c.store), next.sync(c.store, c.security))
	c.current = next
	c.warnIgnored(&next)
	return errors.Join(err, c.writeUsers(&next))
}

// ready returns nil if every broker accepts requests. If each broker is a separate process, it
// checks only that all brokers have registered.
func (c *cluster) ready() error {
	if c.opts.Processes {
		if up, want := len(c.store.Image().Brokers), c.store.Running(); up < want {
			return fmt.Errorf("%d of %d brokers are up", up, want)
		}
		return nil
	}
	brokers := c.all()
	if brokers == nil {
		return errors.New("brokers are starting")
	}
	for i, b := range brokers {
		if err := b.Ready(); err != nil {
			return fmt.Errorf("broker %d: %w", i, err)
		}
	}
	return nil
}

// all returns the brokers in this process, or none before all of them are open.
func (c *cluster) all() broker.Brokers {
	if brokers := c.brokers.Load(); brokers != nil {
		return *brokers
	}
	return nil
}

// isDirectory reports whether a path is a directory, following symbolic links.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
