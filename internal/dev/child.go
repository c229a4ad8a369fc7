package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/loglevel"
	"heartwood.dev/heartwood/internal/metadata/remote"
)

// ChildOptions configures a broker process of `heartwood dev --processes`.
type ChildOptions struct {
	NodeID    int32
	Listeners []broker.Listener
	// PeerHost is the host at which other brokers reach this broker; "": the advertised address.
	PeerHost string
	// Certificates is the directory with the broker's certificates, which the parent process keeps up
	// to date; "": the cluster needs no certificates.
	Certificates string
	Cluster      string // name of the LogCluster; used with Certificates
	DataDir      string
	Rack         string
	HTTP         string // "": the process serves no HTTP
	Hosts        []string
	Pprof        bool // serve profiles on the HTTP port
	Logger       *slog.Logger
	Level        *loglevel.Level // level of Logger
}

// RunChild runs one broker. The broker uses the metadata store of the parent process, through file
// descriptor 3. It shuts down when ctx ends or the parent process exits.
func RunChild(ctx context.Context, opts ChildOptions) error {
	socket := os.NewFile(childSocket, "store")
	store, err := net.FileConn(socket)
	if err != nil {
		return fmt.Errorf("connect to the metadata store of the parent (only `heartwood dev "+
			"--processes` can start this command): %w", err)
	}
	_ = socket.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	options := broker.Options{
		NodeID: opts.NodeID, DataDir: opts.DataDir, Listeners: opts.Listeners, PeerHost: opts.PeerHost,
		Rack:     opts.Rack,
		Metadata: remote.NewClient(store), Logger: opts.Logger, LogLevel: opts.Level,
		Registry: registry,
	}
	if opts.Certificates != "" {
		options.Certificates = broker.NewCertificates()
		options.Namespace, options.Cluster = devNamespace, opts.Cluster
		options.PeerListen, options.PeerHost = peerListen, peerHost
		err = opts.load(options.Certificates)
	}
	var b *broker.Broker
	if err == nil {
		b, err = broker.New(options)
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	running, stopHTTP := context.WithCancel(ctx)
	group.Go(func() error {
		defer stopHTTP() // serve HTTP until the broker has stopped
		return b.Run(ctx)
	})
	if opts.Certificates != "" {
		group.Go(func() error { opts.reload(running, options.Certificates); return nil })
	}
	if opts.HTTP != "" {
		group.Go(func() error { return serveChild(running, opts, b, registry) })
	}
	return group.Wait()
}

// load reads the broker's certificates.
func (o *ChildOptions) load(into *broker.Certificates) error {
	files, err := readPrivate(o.Certificates)
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	names := make([]string, len(o.Listeners))
	for i := range o.Listeners {
		names[i] = o.Listeners[i].Name
	}
	return into.Update(files, names, o.NodeID)
}

// reload reads the certificates regularly until ctx ends. The parent process replaces them weeks
// before they expire.
func (o *ChildOptions) reload(ctx context.Context, into *broker.Certificates) {
	tick := time.NewTicker(secureInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := o.load(into); err != nil {
				o.Logger.Error("failed to load certificates", "error", err)
			}
		}
	}
}

// serveChild serves HTTP for a broker until ctx ends.
func serveChild(ctx context.Context, opts ChildOptions, b *broker.Broker,
	registry prometheus.Gatherer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", opts.HTTP)
	if err != nil {
		return fmt.Errorf("listen for http: %w", err)
	}
	all := broker.Brokers{b}
	options := broker.HTTPOf(registry, b.Ready, func() broker.Brokers { return all })
	options.Pprof = opts.Pprof
	address, err := parseAddress("http", opts.HTTP)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: guard(address, opts.Hosts, withoutRecords(address,
		httpport.New(options))),
		ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
