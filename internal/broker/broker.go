package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
)

// Metadata is what a broker needs of the cluster's metadata: both internal/metadata/local and kube
// give it.
type Metadata interface {
	metadata.Store
	metadata.Admin
	metadata.Alterer
	metadata.Mover
}

// Options of a Broker.
type Options struct {
	NodeID    int32
	DataDir   string
	Listen    string // host:port of the Kafka listener; port 0 picks one
	Advertise string // host:port that clients are told; default: the listener's own address
	// host at which other brokers reach this one, on the port that it listens on; default: as
	// clients do
	PeerHost string
	Rack     string
	Metadata Metadata
	Dialer   wire.Dialer           // connects to other brokers; default: a net.Dialer
	FS       vfs.FS                // of DataDir; default: the operating system's
	Registry prometheus.Registerer // may be nil
	Logger   *slog.Logger          // default: none
}

// Why a broker is not ready.
var (
	errNoImage  = errors.New("waits for the cluster's metadata")
	errStopping = errors.New("stops")
)

// Broker is one broker: a listener, the partitions that live here, their store and cleaner.
type Broker struct {
	opts     Options         // FS is set
	self     metadata.Broker // without Epoch, which the metadata store gives
	cluster  string          // what the file cluster-id says; follow's, once it runs
	logger   *slog.Logger
	store    *logstore.Store
	cleaner  *cleaner.Cleaner
	cleanNow *cleanNow
	replicas *replica.Set
	groups   *coordinator.Groups
	ids      *ProducerIDs
	listener net.Listener
	server   *wire.Server

	shown    atomic.Pointer[shown]          // what requests see
	newest   atomic.Pointer[metadata.Image] // to be applied
	news     chan struct{}                  // holds one: newest was set
	applied  chan struct{}                  // closed with the first image
	serves   chan struct{}                  // closed once requests are taken
	serving  serving                        // what the cluster is to hear of that
	notReady atomic.Pointer[error]          // nil: ready

	close sync.Once // Run closes by itself, and its caller may
}

// New opens the store (its lock, its recovery) and the listener; nothing is served before Run. A
// Broker that is not Run must be closed.
func New(opts Options) (*Broker, error) {
	b := &Broker{opts: opts, logger: opts.Logger, news: make(chan struct{}, 1),
		applied: make(chan struct{}), serves: make(chan struct{})}
	b.serving.news = make(chan struct{}, 1)
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	b.logger = b.logger.With("broker", opts.NodeID)
	if b.opts.FS == nil {
		b.opts.FS = vfs.OS{}
	}
	if b.opts.Dialer == nil {
		b.opts.Dialer = &net.Dialer{}
	}
	b.notReady.Store(&errNoImage)
	b.shown.Store(&shown{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil),
		replaced: make(chan struct{})})
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("start broker %d: %w", opts.NodeID, err), b.Close())
	}
	return b, nil
}

// open opens what can fail, and wires the rest. What was opened before a failure is Close's to
// close.
func (b *Broker) open() (err error) {
	b.store, err = logstore.Open(logstore.Options{FS: b.opts.FS, Dir: b.opts.DataDir,
		Logger: b.logger, Failed: b.logFailed})
	if err != nil {
		return fmt.Errorf("open data directory %s: %w", b.opts.DataDir, err)
	}
	if b.cluster, err = readClusterID(b.opts.FS, b.opts.DataDir); err != nil {
		return err
	}
	if b.ids, err = OpenProducerIDs(b.opts.FS, b.opts.DataDir, b.opts.NodeID,
		time.Now); err != nil {
		return err
	}
	if lost := b.ids.Lost(); lost != nil {
		b.logger.Warn("producer ids file is malformed: ids continue above the registered bound",
			"error", lost)
	}
	if b.listener, err = listen(b.opts.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", b.opts.Listen, err)
	}
	if b.self, err = b.identity(); err != nil {
		return err
	}
	// The cleaner may start at once: until an image has configured a log, the log is not a
	// compacted one.
	b.cleaner = cleaner.New(b.store, cleaner.Options{Logger: b.logger})
	b.cleanNow = newCleanNow(b.opts.FS, b.opts.DataDir,
		cleanerSeam{ask: b.cleaner.CleanNow, status: b.cleaner.Status}, b.logger)
	b.replicas = replica.NewSet(replica.Options{
		NodeID: b.opts.NodeID, Cluster: b.cluster, Store: b.store, Registry: b.opts.Registry,
		Logger: b.logger,
		Dial:   b.dial, ChangeISR: b.opts.Metadata.ChangeISR,
	})
	b.groups = coordinator.NewGroups(coordinator.Options{
		NodeID: b.opts.NodeID, Replicas: b.replicas, Image: b.image, Await: b.await,
		Admin:    b.opts.Metadata,
		Registry: b.opts.Registry, Logger: b.logger,
	})
	b.server = wire.NewServer(wire.Options{
		Name:     metadata.DefaultListener,
		Listener: b.listener,
		Handler: handler.New(handler.Options{
			NodeID: b.opts.NodeID, Image: b.image, Await: b.await, Replicas: b.replicas,
			Groups: b.groups, Admin: b.opts.Metadata,
			Alterer: b.opts.Metadata, Mover: b.opts.Metadata, ProducerID: b.ids.Next,
			DataDir: b.opts.DataDir, Volume: b.volume, Logger: b.logger,
		}),
		APIName:  handler.APIName,
		Registry: b.opts.Registry,
		Logger:   b.logger,
	})
	b.register(b.opts.Registry)
	return nil
}

// listen opens a TCP listener.
func listen(address string) (net.Listener, error) {
	var config net.ListenConfig
	// an address is resolved at most; there is nothing to cancel
	return config.Listen(context.Background(), "tcp", address)
}

// identity is how this broker registers. It needs the open listener (port 0 is a real one by then)
// and the open store (for the directory's id). An address that no client could connect to is
// refused here: it would fail on their side only.
func (b *Broker) identity() (metadata.Broker, error) {
	advertise := b.opts.Advertise
	if advertise == "" {
		advertise = b.listener.Addr().String()
	}
	endpoint, err := metadata.ParseEndpoint(advertise)
	if err != nil {
		return metadata.Broker{}, fmt.Errorf("advertised address: %w", err)
	}
	if ip := net.ParseIP(endpoint.Host); ip != nil && ip.IsUnspecified() {
		return metadata.Broker{},
			fmt.Errorf(
				"advertised address %q: clients cannot connect to every address; advertise one of them",
				advertise,
			)
	}
	peer := ""
	if b.opts.PeerHost != "" {
		_, listens, err := net.SplitHostPort(b.listener.Addr().String())
		if err != nil {
			return metadata.Broker{}, fmt.Errorf("read the listener's address: %w", err)
		}
		peer = net.JoinHostPort(b.opts.PeerHost, listens)
	}
	return metadata.Broker{
		ID: b.opts.NodeID, Peer: peer, Rack: b.opts.Rack,
		Endpoints: metadata.NewEndpoints(map[string]metadata.Endpoint{
			metadata.DefaultListener: endpoint,
		}),
		Directory: metadata.ID(b.store.DirectoryID()).String(), CleanEpoch: b.store.CleanEpoch(),
		ProducerIDs: b.ids.Bound(), ProducerIDsLost: b.ids.Lost() != nil,
	}, nil
}

// Addr is the address clients are told.
func (b *Broker) Addr() string {
	endpoint, _ := b.self.Endpoints.On(metadata.DefaultListener)
	return endpoint.String()
}

// Ready is nil once the first metadata image was applied and the broker serves.
func (b *Broker) Ready() error {
	if err := b.notReady.Load(); err != nil {
		return *err
	}
	return nil
}

// Run serves until ctx ends, then stops in order: leadership, which others take over while this
// broker still serves (leave.go), listener, requests that wait, metadata, cleaner, store (clean
// shutdown). It is called once. It returns nil if ctx ended and all closed well; else why it could
// not go on, joined with what closing met.
func (b *Broker) Run(ctx context.Context) error {
	// Following the metadata outlives ctx: the server stops first, while the partitions are still
	// what clients think they are.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	follow := start(func() error { return b.follow(following) })
	tellServing := start(func() error { b.tellServing(following); return nil })
	metadataStore := start(func() error { return b.opts.Metadata.Run(following, b.self, b.offer) })
	cleanNow := start(func() error { b.cleanNow.run(following); return nil })
	err := b.serve(ctx, metadataStore)

	// From here on nobody appends. Waits ended with the server; closing the set ends those that
	// came in between. The metadata go after that, since an image may still make or release logs,
	// and the store, which holds them, goes last.
	b.notReady.Store(&errStopping)
	b.groups.Close()
	b.replicas.Close()
	stopFollowing()
	<-follow.done
	<-tellServing.done
	<-metadataStore.done
	<-cleanNow.done
	if metadataStore.err != nil {
		err = errors.Join(err, fmt.Errorf("follow the cluster's metadata: %w", metadataStore.err))
	}
	return errors.Join(err, b.Close())
}

// serve takes requests from the first image on, until ctx ends or there is no metadata to follow
// any more.
func (b *Broker) serve(ctx context.Context, metadataStore *task) error {
	select {
	case <-ctx.Done():
		return nil
	case <-metadataStore.done:
		return nil
	case <-b.applied:
	}
	// it goes on while others take over
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	server := start(func() error { return b.server.Serve(serving) })
	b.notReady.Store(nil)
	close(b.serves)
	b.logger.Info("broker serves", "address", b.Addr())
	select {
	case <-server.done: // the listener failed
	case <-ctx.Done():
		b.notReady.Store(&errStopping)
		b.leave(serving)
		stopServing()
	case <-metadataStore.done:
		// Without metadata this broker would go on as leader of what others may lead by now.
		stopServing()
	}
	<-server.done
	if server.err != nil {
		return fmt.Errorf("serve clients: %w", server.err)
	}
	return nil
}

// Close releases what New opened, in order. Run does it by itself.
func (b *Broker) Close() (err error) {
	b.close.Do(func() {
		if b.listener != nil {
			_ = b.listener.Close() // the server has closed it already, if it ran
		}
		if b.groups != nil {
			b.groups.Close()
		}
		if b.replicas != nil {
			b.replicas.Close()
		}
		if b.cleaner != nil {
			b.cleaner.Close()
		}
		if b.store != nil {
			if err = b.store.Close(); err != nil {
				err = fmt.Errorf("close data directory %s: %w", b.opts.DataDir, err)
			}
		}
	})
	return err
}

// task is a goroutine that somebody joins.
type task struct {
	done chan struct{}
	err  error // valid once done is closed
}

// start runs run in a goroutine; whoever reads err waits for done first.
func start(run func() error) *task {
	t := &task{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = run()
	}()
	return t
}
