package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/metadata/remote"
)

// ChildOptions of a broker that `heartwood dev --processes` starts.
type ChildOptions struct {
	NodeID    int32
	Listen    string
	Advertise string // "": as it listens
	DataDir   string
	Rack      string
	HTTP      string // "": none
	Logger    *slog.Logger
}

// RunChild runs one broker whose metadata store is its parent's, at the other end of file
// descriptor 3. It ends, in order, when ctx does, or the parent.
func RunChild(ctx context.Context, opts ChildOptions) error {
	socket := os.NewFile(childSocket, "store")
	store, err := net.FileConn(socket)
	if err != nil {
		return fmt.Errorf(
			"this is how `heartwood dev --processes` starts a broker; it has no other use: %w",
			err,
		)
	}
	_ = socket.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b, err := broker.New(broker.Options{
		NodeID: opts.NodeID, DataDir: opts.DataDir, Listen: opts.Listen, Advertise: opts.Advertise,
		Rack:     opts.Rack,
		Metadata: remote.NewClient(store), Logger: opts.Logger, Registry: registry,
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	running, stopHTTP := context.WithCancel(ctx)
	group.Go(func() error {
		defer stopHTTP() // it serves as long as the broker does
		return b.Run(ctx)
	})
	if opts.HTTP != "" {
		group.Go(func() error { return serveChild(running, opts.HTTP, b, registry) })
	}
	return group.Wait()
}

// serveChild serves a broker's HTTP until ctx ends.
func serveChild(ctx context.Context, address string, b *broker.Broker,
	registry prometheus.Gatherer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for http: %w", err)
	}
	all := broker.Brokers{b}
	server := &http.Server{
		Handler: broker.NewHTTP(broker.HTTPOf(registry, b.Ready,
			func() broker.Brokers { return all })),
		ReadHeaderTimeout: headerTimeout,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
