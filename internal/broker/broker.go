package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/broker/cleannow"
	"heartwood.dev/heartwood/internal/broker/grouplag"
	"heartwood.dev/heartwood/internal/broker/hanging"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/events"
	"heartwood.dev/heartwood/internal/handler"
	"heartwood.dev/heartwood/internal/loglevel"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/scrape"
	"heartwood.dev/heartwood/internal/tokens"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
)

// Metadata is a broker's metadata store. The packages local, kube and remote in internal/metadata
// implement it.
type Metadata interface {
	metadata.Store
	metadata.Admin
	metadata.Alterer
	metadata.Mover
	metadata.UserAdmin
}

// Options configure a Broker.
type Options struct {
	NodeID    int32
	DataDir   string
	Listen    string // host:port of the Kafka listener; for port 0 the system chooses a port
	Advertise string // host:port for clients; default: the address of the listener
	// PeerHost is the host to which other brokers connect, on the listener's port. The default is the
	// advertised address.
	PeerHost string
	// Listeners are the listeners for clients. The default is one plaintext listener on Listen.
	Listeners []Listener
	// PeerListen is the host:port to which other brokers connect with mutual TLS. If it is empty, they
	// connect to the first listener without TLS.
	PeerListen string
	// Certificates is required if PeerListen is set or a listener uses TLS.
	Certificates *Certificates
	// ServiceAccounts verifies the ServiceAccount tokens of clients. It is nil outside Kubernetes.
	ServiceAccounts sasl.TokenVerifier
	// Namespace and Cluster identify the LogCluster in the brokers' certificates.
	Namespace, Cluster string
	Rack               string
	Metadata           Metadata
	Dialer             wire.Dialer           // connections to other brokers; default: a net.Dialer
	FS                 vfs.FS                // file system of DataDir; default: vfs.OS
	Registry           prometheus.Registerer // optional
	Logger             *slog.Logger          // default: discards everything
	// LogLevel is the level of Logger. The broker sets it to the LogCluster's log level. If LogLevel
	// is nil, the level never changes.
	LogLevel *loglevel.Level
}

// Reasons why a broker is not ready.
var (
	errNoImage  = errors.New("waiting for the cluster's metadata")
	errStopping = errors.New("shutting down")
)

// Broker is a Kafka broker: its listeners, partitions, log store and cleaner.
type Broker struct {
	opts     Options         // FS and Dialer are set
	self     metadata.Broker // registration, without Epoch, which the metadata store assigns
	cluster  *clusterFile
	logger   *slog.Logger
	store    *logstore.Store
	cleaner  *cleaner.Cleaner
	events   atomic.Pointer[events.Hub] // nil before the first viewer connects
	cleanNow *cleannow.Tasks
	scrub    *scrub.Scrubber
	volumes  *volumeWatch
	removals *removals
	replicas *replica.Set
	groups   *coordinator.Groups
	// transactions is set before the listeners serve requests.
	transactions *coordinator.Transactions
	hanging      *hanging.Watch
	level        scrape.Level // level of detail of the partition metrics
	ids          *ProducerIDs
	network

	images    images
	serving   servingReport // the served partitions, for the report
	readiness readiness
	shutdown  shutdown
	// background contains components that Run starts in the background.
	background []func(context.Context)

	close sync.Once // Close may be called twice: by Run and by the caller of New
}

// network contains the broker's listeners.
type network struct {
	// listeners are open once New has returned. They have the same order as in Options.
	listeners []*openListener
	peers     *openListener // nil: other brokers connect to the first listener
	issuers   []*tokens.Source
}

// readiness is the broker's readiness for requests.
type readiness struct {
	serves   chan struct{}         // closed once requests are accepted
	obstacle atomic.Pointer[error] // reason for not being ready; nil: ready
}

// New opens the log store and the listeners. Opening the store locks the data directory and
// recovers the logs. The broker serves requests only while Run runs. A caller that does not call
// Run must call Close.
func New(opts Options) (*Broker, error) {
	b := &Broker{opts: opts, logger: opts.Logger,
		readiness: readiness{serves: make(chan struct{})},
		shutdown:  shutdown{timeout: shutdownTimeout, notice: waitNotice}}
	b.serving.changed = make(chan struct{}, 1)
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
	b.readiness.obstacle.Store(&errNoImage)
	b.images.start(metadata.NewImage("", metadata.CleanerBudget{}, nil, nil))
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("start broker %d: %w", opts.NodeID, err), b.Close())
	}
	return b, nil
}

// open creates the broker's components. If open fails, the caller must call Close, which closes the
// components that were opened.
func (b *Broker) open() (err error) {
	files := b.raiseOpenFiles()
	b.store, err = logstore.Open(logstore.Options{FS: b.opts.FS, Dir: b.opts.DataDir,
		Logger: b.logger, Failed: b.logFailed, Damaged: b.damageRead})
	if err != nil {
		return fmt.Errorf("open data directory %s: %w", b.opts.DataDir, err)
	}
	if b.cluster, err = openClusterFile(b.opts.FS, b.opts.DataDir); err != nil {
		return err
	}
	if b.ids, err = OpenProducerIDs(b.opts.FS, b.opts.DataDir, b.opts.NodeID,
		time.Now); err != nil {
		return err
	}
	if lost := b.ids.Lost(); lost != nil {
		b.logger.Warn("failed to decode the producer ids file; allocating ids above all earlier ones",
			"error", lost)
	}
	if err = b.openListeners(); err != nil {
		return err
	}
	if err = b.openPeers(); err != nil {
		return err
	}
	if b.self, err = b.identity(); err != nil {
		return err
	}
	// The cleaner can start already: it compacts a log only after a metadata image has configured the
	// log.
	passes := passlog.Open(passlog.Options{FS: b.opts.FS, Dir: b.opts.DataDir,
		Broker: b.opts.NodeID, Observer: b.observer(), Logger: b.logger,
		Logs: func() map[passlog.Key]bool { return cleaner.HistoryKeys(b.store) }})
	b.cleaner = cleaner.New(b.store, cleaner.Options{Logger: b.logger, History: passes})
	b.scrub = b.newScrub(passes)
	b.volumes = newVolumeWatch(b)
	b.removals = newRemovals(b)
	b.cleanNow = cleannow.New(b.opts.FS, b.opts.DataDir,
		cleannow.Cleaner{Request: b.cleaner.CleanNow, Status: b.cleaner.Status}, b.logger)
	b.replicas = replica.NewSet(replica.Options{
		NodeID: b.opts.NodeID, Cluster: b.cluster.id, Store: b.store, Registry: b.opts.Registry,
		Logger: b.logger, RecordedLosses: b.self.Losses,
		Dial: b.dial, ChangeISR: b.opts.Metadata.ChangeISR, Verifier: verifier{b},
		LostLog: b.wake,
	})
	b.groups = coordinator.NewGroups(coordinator.Options{
		NodeID: b.opts.NodeID, Replicas: b.replicas, Image: b.image, Await: b.await,
		Admin:    b.opts.Metadata,
		Registry: b.opts.Registry, Logger: b.logger,
	})
	b.transactions = b.newTransactions()
	b.hanging = hanging.New(hanging.Options{Serves: b.readiness.serves, States: b.replicas.States,
		LateAfter: b.lateAfter, Reachable: b.metadataReachable, Known: b.transactions.Known,
		Abort: b.abortOpen, Logger: b.logger})
	groupLag := grouplag.New(b.groupLagOptions())
	if err := b.serveListeners(b.newHandler(), connectionsMax(files)); err != nil {
		return err
	}
	reach := &reachWatch{broker: b}
	b.background = []func(context.Context){b.cleanNow.Run, b.hanging.Run, groupLag.Run,
		b.scrub.Run, b.reportScrub, b.volumes.run, reach.run, b.removals.run, b.followIssuers}
	b.register(b.opts.Registry, groupLag)
	return nil
}

func (b *Broker) newHandler() *handler.Handler {
	return handler.New(handler.Options{
		NodeID: b.opts.NodeID, Image: b.image, Await: b.await, Replicas: b.replicas,
		Groups: b.groups, Transactions: b.transactions, Admin: b.opts.Metadata,
		Alterer: b.opts.Metadata, Mover: b.opts.Metadata, Users: b.opts.Metadata,
		ProducerID: b.ids.Next, Authorize: b.authorize, Explain: b.explain, PlainPeers: b.plainFollower,
		DataDir: b.opts.DataDir, Listen: b.listeners[0].socket.Addr().String(), Volume: b.volume,
		Registry: b.opts.Registry, Logger: b.logger,
	})
}

func (b *Broker) groupLagOptions() grouplag.Options {
	return grouplag.Options{NodeID: b.opts.NodeID, Serves: b.readiness.serves, Image: b.image,
		Committed: b.groups.AllCommitted, Replicas: b.replicas, Dial: b.dialPeer, Logger: b.logger}
}

func listen(address string) (net.Listener, error) {
	var config net.ListenConfig
	// No context is needed, because Listen at most resolves an address.
	return config.Listen(context.Background(), "tcp", address)
}

// identity returns the broker's registration. The listeners and the store must be open: port 0 is
// replaced by the port that the system has chosen, and the store contains the directory id.
func (b *Broker) identity() (metadata.Broker, error) {
	endpoints := map[string]metadata.Endpoint{}
	for _, l := range b.listeners {
		endpoints[l.Name] = l.endpoint
	}
	if _, named := endpoints[metadata.DefaultListener]; !named {
		// The default listener is the first one. Its endpoint also contains the HTTP port's host and the
		// address for peers without TLS.
		endpoints[metadata.DefaultListener] = b.listeners[0].endpoint
	}
	peer, err := b.peerAddress()
	if err != nil {
		return metadata.Broker{}, err
	}
	losses, err := replica.LossesOf(b.store, b.cluster.id)
	if err != nil {
		return metadata.Broker{}, err
	}
	if losses != nil {
		b.logger.Info("recording lost logs before the registration", "logs", len(losses.Logs))
	}
	return metadata.Broker{
		ID: b.opts.NodeID, Peer: peer, Rack: b.opts.Rack,
		Endpoints: metadata.NewEndpoints(endpoints),
		Directory: metadata.ID(b.store.DirectoryID()).String(), CleanEpoch: b.store.CleanEpoch(),
		BootEpoch:   logstore.DirectoryFiles{Store: b.store}.BootEpoch(),
		ProducerIDs: b.ids.Bound(), ProducerIDsLost: b.ids.Lost() != nil,
		TransactionVersion: transaction.EpochBumpVersion, Losses: losses,
	}, nil
}

// Addr returns the advertised address of the first listener.
func (b *Broker) Addr() string { return b.listeners[0].endpoint.String() }

// Ready returns nil while the broker accepts requests. Otherwise it returns the reason: no metadata
// image has been applied yet, or the broker is shutting down.
func (b *Broker) Ready() error {
	err := b.readiness.obstacle.Load()
	if err == nil {
		return nil
	}
	if waiter, ok := b.opts.Metadata.(metadata.RegistrationWaiter); ok && errors.Is(*err, errNoImage) {
		return cmp.Or(waiter.WaitsFor(), errNoImage)
	}
	return *err
}

// Run serves until ctx ends, and then shuts down. It first performs the controlled shutdown
// (controlled_shutdown.go), during which the broker still serves. Then it stops, in this order: the
// listeners, waiting requests, the metadata, the cleaner, and the store, which records a clean
// shutdown. Run must be called only once. It returns nil if ctx ended and everything closed without
// an error, and otherwise the joined errors.
func (b *Broker) Run(ctx context.Context) error {
	// The broker follows the metadata until the server has stopped, even after ctx ends, because
	// clients expect it to lead its partitions until then.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	metadataStore := start(func() error { return b.opts.Metadata.Run(following, b.self, b.offer) })
	var workers sync.WaitGroup
	for _, work := range slices.Concat(b.background,
		[]func(context.Context){b.follow, b.reportServing}) {
		workers.Go(func() { work(following) })
	}
	err := b.serve(ctx, metadataStore)

	// The server has stopped: no request is in progress, and nothing is appended. Closing the set of
	// replicas ends delayed operations that started in the meantime. Then the broker stops following
	// the metadata, because applying an image may open or close logs. The store is closed last,
	// because it owns the logs.
	b.readiness.obstacle.Store(&errStopping)
	b.transactions.Close()
	b.groups.Close()
	b.replicas.Close()
	stopFollowing()
	<-metadataStore.done
	workers.Wait()
	if metadataStore.err != nil {
		err = errors.Join(err, fmt.Errorf("follow the cluster's metadata: %w", metadataStore.err))
	}
	return errors.Join(err, b.Close())
}

// serve waits until the first metadata image is applied. Then it accepts requests until ctx ends or
// the metadata store fails.
func (b *Broker) serve(ctx context.Context, metadataStore *task) error {
	select {
	case <-ctx.Done():
		return nil
	case <-metadataStore.done:
		return nil
	case <-b.images.usable:
	}
	// The server keeps running during the controlled shutdown, in which other brokers become leaders.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	server := start(func() error { return b.serveAll(serving) })
	b.readiness.obstacle.Store(nil)
	close(b.readiness.serves)
	b.logger.Info("broker ready", "address", b.Addr())
	select {
	case <-server.done: // the listener failed
	case <-ctx.Done():
		b.readiness.obstacle.Store(&errStopping)
		b.shutDownGracefully(serving)
		stopServing()
	case <-metadataStore.done:
		// This broker no longer receives metadata. It must stop, because other brokers may already lead
		// its partitions.
		stopServing()
	}
	<-server.done
	if server.err != nil {
		return fmt.Errorf("serve clients: %w", server.err)
	}
	return nil
}

// Close closes everything that New opened, in the reverse order. Run calls Close before it returns.
func (b *Broker) Close() (err error) {
	b.close.Do(func() {
		for _, l := range b.allListeners() {
			_ = l.socket.Close() // if the server ran, it has already closed the listener
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

// task is a goroutine. Its channel done is closed when the goroutine has ended.
type task struct {
	done chan struct{}
	err  error // valid once done is closed
}

// start runs a function in a new goroutine.
func start(run func() error) *task {
	t := &task{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = run()
	}()
	return t
}
