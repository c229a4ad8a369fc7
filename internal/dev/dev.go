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
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	lockFile     = ".lock"
	metadataFile = "metadata.json"
)

// slowStart is how long the start waits for partitions before it says which one it waits for.
const slowStart = 10 * time.Second

// headerTimeout bounds how long a connection to the HTTP port may take to ask for something.
const headerTimeout = 10 * time.Second

// Run is a whole cluster in one process, until ctx ends. Bad options and manifests come back as an
// error that wraps ErrUsage.
func Run(ctx context.Context, opts Options) (err error) {
	opts = opts.withDefaults()
	c := &cluster{opts: opts, fs: vfs.OS{}}
	if c.listen, err = parseAddress("listen", opts.Listen); err != nil {
		return err
	}
	if c.http, err = parseAddress("http", opts.HTTP); err != nil {
		return err
	}
	if opts.Brokers < 0 {
		return usage(fmt.Errorf("--brokers %d: want at least 1", opts.Brokers))
	}
	// Before anything is read: what changes from here on is seen.
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

// cluster is what Run runs.
type cluster struct {
	opts    Options
	fs      vfs.FS
	listen  address
	http    address
	watcher *watcher
	store   *local.Store
	wanted  state                          // at the start
	brokers atomic.Pointer[broker.Brokers] // once all are open; HTTP asks them

	reported string // the faults of the last change of manifests
}

// open checks the manifests, locks the data directory and makes the metadata what they say.
func (c *cluster) open() (unlock func(), err error) {
	set, err := loadManifests(c.opts.Manifests)
	if err != nil {
		return nil, usage(err)
	}
	if err := c.fs.MkdirAll(c.opts.DataDir); err != nil {
		return nil, usage(fmt.Errorf("--data-dir: %w", err))
	}
	lock, err := c.fs.Lock(filepath.Join(c.opts.DataDir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, usage(
			fmt.Errorf(
				"--data-dir %s is locked: another heartwood uses it; stop that one, or choose another --data-dir",
				c.opts.DataDir,
			),
		)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("--data-dir: %w", err))
	}
	if err := c.openMetadata(set); err != nil {
		_ = lock.Close() // the error that matters is the first
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// openMetadata opens the store and, unless flags or manifests are found to be at fault before,
// applies them.
func (c *cluster) openMetadata(set *manifest.Set) (err error) {
	file := filepath.Join(c.opts.DataDir, metadataFile)
	c.warnIfLost(file)
	if c.store, err = local.Open(c.fs, file); err != nil {
		return fmt.Errorf(
			"%w\nput a copy of the file back; or move it away, and the topics of your manifests take up the records "+
				"that are here, with other ids",
			err,
		)
	}
	c.wanted = newState(set, c.opts, c.store)
	if err := c.wanted.keepForbidden(c.store); err != nil {
		return usage(err)
	}
	if err := c.listen.forBrokers(max(c.wanted.brokers, c.store.Running())); err != nil {
		return err
	}
	if err := c.store.SetRacks(c.opts.Racks); err != nil {
		return err
	}
	err = c.wanted.sync(c.store)
	if err != nil && !errors.Is(err, local.ErrNotWritten) {
		return usage(err)
	}
	return err
}

// warnIfLost says so when there are logs but no metadata. The start goes on: topics of the same
// names take the records up again, and nothing is deleted (docs/adr/0028); but whoever moved the
// file should hear of it.
func (c *cluster) warnIfLost(file string) {
	_, missing := c.fs.Stat(file)
	_, logs := c.fs.Stat(c.brokerDir(0))
	if errors.Is(missing, fs.ErrNotExist) && logs == nil {
		c.opts.Logger.Warn(
			"metadata is missing and begins anew; topics of the same name take up their records, others are kept aside",
			"file",
			file,
		)
	}
}

// brokerDir is the data directory of broker i.
func (c *cluster) brokerDir(i int) string {
	return filepath.Join(c.opts.DataDir, "broker-"+strconv.Itoa(i))
}

// run serves until ctx ends, and returns nil if that was all that happened. HTTP comes first and
// goes last, so that /readyz can tell what happens meanwhile.
func (c *cluster) run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.http.String())
	if err != nil {
		return listenFault("http", err)
	}
	handler := broker.NewHTTP(broker.HTTPOf(registry, c.ready, c.all))
	if c.opts.Processes {
		handler = c.sendOn(handler)
	}
	server := &http.Server{
		Handler:           handler,
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
	_ = server.Close() // it only closes connections
	return errors.Join(err, serving.Wait())
}

// listenFault makes a usage error of one that another address would not have.
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

// announce prints a line for each topic, then the ready line: scripts wait for it, so nothing of
// the start comes after it.
func (c *cluster) announce(bootstrap []string, httpAddress string) {
	for _, topic := range c.store.Image().Topics {
		c.print(topicLine(topic))
	}
	c.print(readyLine(bootstrap, httpAddress, c.opts.DataDir))
}

// print writes a line for people. Whether they still read it is no matter of the cluster's.
func (c *cluster) print(line string) { _, _ = fmt.Fprintln(c.opts.Out, line) }

// follow applies the manifests whenever they may have changed, until ctx ends. It is one loop in
// Run's goroutine, so changes never overlap; those that come while one is applied are one more
// round.
func (c *cluster) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.watcher.changes:
			c.apply()
		}
	}
}

// apply makes the cluster what the manifests say now, as far as that may be.
func (c *cluster) apply() {
	before := c.store.Image()
	fault := c.applyManifests()
	for _, line := range changedLines(before, c.store.Image()) {
		c.print(line)
	}
	c.tell(fault)
}

// tell reports the faults of manifests, and once that they are mended. A save of something else
// does not report them again.
func (c *cluster) tell(fault error) {
	text := ""
	if fault != nil {
		text = fault.Error()
	}
	switch {
	case text == c.reported:
		return
	case text == "":
		c.print("manifests applied")
	default:
		for _, one := range faults(fault) {
			c.opts.Logger.Error("manifests not applied, or not wholly", "error", one)
		}
	}
	c.reported = text
}

// applyManifests puts back what cannot change while we run, then syncs the rest: those faults do
// not hold the rest up.
func (c *cluster) applyManifests() error {
	set, err := loadManifests(c.opts.Manifests)
	if err != nil {
		return err
	}
	next := newState(set, c.opts, c.store)
	return errors.Join(next.keepBrokers(c.wanted.brokers), next.keepForbidden(c.store),
		next.sync(c.store))
}

// ready is nil once every broker serves. Of one in a process of its own it is known here that it is
// up, and the process tells the rest.
func (c *cluster) ready() error {
	if c.opts.Processes {
		if up, wanted := len(c.store.Image().Brokers), c.store.Running(); up < wanted {
			return fmt.Errorf("%d of %d brokers are up", up, wanted)
		}
		return nil
	}
	brokers := c.all()
	if brokers == nil {
		return errors.New("brokers start")
	}
	for i, b := range brokers {
		if err := b.Ready(); err != nil {
			return fmt.Errorf("broker %d: %w", i, err)
		}
	}
	return nil
}

// all are the brokers; none before all are open.
func (c *cluster) all() broker.Brokers {
	if brokers := c.brokers.Load(); brokers != nil {
		return *brokers
	}
	return nil
}

// isFolder follows links.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
