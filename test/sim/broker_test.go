package sim

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/metadata/remote"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// broker is a machine with a disk and at most one broker process.
type broker struct {
	w    *world
	id   int32
	disk *vfs.Mem
	// errors are the errors that the disk returns to the process.
	errors *diskErrors
	live   atomic.Pointer[liveBroker] // nil: the broker is down

	stopping bool
	flipped  []string // topics whose log has a flipped bit; guarded by world.mu
	exits    []exit   // one for each process that has ended; guarded by world.mu
}

// exit describes how a broker process ended.
type exit struct {
	epoch        int64
	lostUnsynced bool // true if unsynced records are lost
	lostAll      bool
	graceful     bool
	// synced is the offset below which the process had certainly synced all records, by topic.
	synced map[string]int64
}

// liveBroker is a broker process with one broker epoch.
type liveBroker struct {
	*broker
	ctx          context.Context
	cancel       context.CancelFunc
	watcher      *logWatcher
	store        *logstore.Store
	cleaner      *cleaner.Cleaner
	set          *replica.Set
	coordinators              // nil unless world.exactlyOnce is set
	wire         *listener    // nil unless profile.overWire is set
	epoch        atomic.Int64 // 0: not registered yet
	image        atomic.Pointer[metadata.Image]
	api          *apiClient
	// client is the connection to the parent process; nil if there is no parent process, or no
	// connection yet.
	client  atomic.Pointer[remote.Client]
	writer  *commit.Writer
	losses  *metadata.Losses              // losses that the store has found at its start
	brokers atomic.Pointer[registrations] // registered brokers, as of image
	reports chan []metadata.Served        // latest report; buffer of one
	// isrChanges is the number of calls of changeISR that have not returned.
	isrChanges atomic.Int32
	dead       atomic.Bool // true if the process has ended and no longer affects other nodes
	closes     atomic.Bool // true if shut was called
	closed     chan struct{}
	applying   sync.WaitGroup // goroutine that applies images
	reach      reach
}

func newBroker(w *world, id int32) *broker {
	b := &broker{w: w, id: id, errors: &diskErrors{}}
	b.replaceDisk()
	return b
}

func (b *broker) replaceDisk() {
	b.disk = vfs.NewMem()
	if err := errors.Join(b.disk.MkdirAll("/data"), b.disk.SyncDir("/")); err != nil {
		b.w.fail("create a disk: %v", err)
	}
}

// start starts a broker process on the disk.
func (b *broker) start() {
	watcher := newLogWatcher(b, b.w.logger.Handler())
	logger := slog.New(watcher).With("broker", b.id)
	b.errors.takeOccurred()
	fails := b.w.power.fails.Load()
	store, err := logstore.Open(logstore.Options{FS: brokerDisk{b.disk, b.w.power, b.errors},
		Dir: "/data", Logger: logger,
		FlushInterval: b.w.profile.flushInterval, RetentionInterval: retentionInterval})
	if err != nil && b.errors.hasOccurred() {
		b.w.tracef("broker %d failed to start: %v", b.id, err)
		b.w.schedule(b.w.downtime(), func() { b.w.start(b) })
		return
	}
	if err != nil {
		b.w.fail("broker %d failed to start: %v", b.id, err)
		return
	}
	l := &liveBroker{broker: b, store: store, watcher: watcher, closed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(b.w.ctx)
	l.api = newAPIClient(b.w, b.id, l.dead.Load)
	l.api.unknown = func() {
		if l.isrChanges.Load() > 0 {
			l.isolate(2*b.w.profile.lagMax + 3*time.Second)
		}
	}
	l.writer, l.reports = l.api.writer(), make(chan []metadata.Served, 1)
	if l.losses, err = replica.LossesOf(store, b.w.cluster); err != nil {
		b.w.fail("broker %d: %v", b.id, err)
	}
	l.cleaner = cleaner.New(store,
		cleaner.Options{Logger: logger, MemoryBytes: 1 << 20})
	opts := replica.Options{
		NodeID: b.id, Cluster: b.w.cluster, Store: store, Logger: logger, Dial: l.dial,
		ChangeISR: l.changeISR, LagMax: b.w.profile.lagMax, RecordedLosses: l.losses,
	}
	if b.w.parent != nil {
		opts.ChangeISR = l.changeISRByParent
	}
	if b.w.exactlyOnce != nil {
		opts.Verifier = l
	}
	l.set = replica.NewSet(opts)
	if b.w.exactlyOnce != nil {
		l.startCoordinators(logger)
	}
	if b.w.profile.overWire {
		l.wire = l.listen(logger)
	}
	b.live.Store(l)
	l.dead.Store(b.w.power.fails.Load() != fails) // the power has failed during the start
	l.applying.Add(1)
	b.w.spawn(func() {
		defer l.applying.Done()
		l.run()
	})
}

// run registers the broker, renews its Lease, and applies images until the process ends.
func (l *liveBroker) run() {
	self := metadata.Broker{ID: l.id, Endpoints: "kafka://sim:1",
		Directory: metadata.ID(l.store.DirectoryID()).String(), CleanEpoch: l.store.CleanEpoch(),
		BootEpoch: logstore.DirectoryFiles{Store: l.store}.BootEpoch()}
	if l.w.parent != nil {
		self.Losses = l.losses
		l.runWithParent(self)
		return
	}
	if l.recordLosses() != nil {
		return
	}
	for {
		registered := func() error { l.epoch.Store(l.w.meta.register(self)); return nil }
		if l.api.call(l.ctx, registered) == nil {
			break
		}
		if sleep(l.ctx, time.Second) != nil {
			return
		}
	}
	l.w.spawn(l.keepLease)
	l.w.spawn(l.pingAlways)
	l.w.spawn(l.reportServing)
	sets := map[string]*partitionset.Set{}
	for {
		brokers, err := l.api.next(l.ctx, 3*time.Second)
		if l.ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		for _, name := range l.w.store.names() {
			sets[name], _ = partitionset.Decode(l.api.Latest(name), sets[name])
		}
		l.brokers.Store(&brokers)
		l.apply(l.w.meta.image(sets, brokers))
	}
}

func (l *liveBroker) apply(image *metadata.Image) {
	if l.dead.Load() {
		return
	}
	if self, up := image.Broker(l.id); up {
		l.store.SetBrokerEpoch(self.Epoch)
	}
	l.w.oracle.checkImage(l, image)
	served, err := l.set.Apply(image)
	if err != nil {
		l.w.logger.Warn("failed to apply image", "broker", l.id, "error", err)
	}
	l.image.Store(image)
	l.coordinators.apply(image)
	select {
	case <-l.reports: // drops an earlier report that was not sent
	default:
	}
	l.reports <- served
}

func (l *liveBroker) keepLease() {
	for sleep(l.ctx, time.Second) == nil {
		ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
		_ = l.api.call(ctx,
			func() error { l.w.meta.renewLease(l.id, l.epoch.Load(), l.reach.latest()); return nil })
		cancel()
	}
}

// reportServing writes the reports of served partitions, one after the other.
func (l *liveBroker) reportServing() {
	for {
		var served []metadata.Served
		select {
		case <-l.ctx.Done():
			return
		case served = <-l.reports:
		}
		self := placement.InSyncReplica{Broker: l.id, Epoch: l.epoch.Load()}
		changes := map[string][]commit.Change{}
		for _, one := range served {
			t := l.w.meta.topicByID(one.Topic)
			changes[t.set] = append(changes[t.set], func(s *partitionset.Set) error {
				switch {
				case one.Lost:
					s.ReportLostLog(t.key(), l.id, one.ReplicaIncarnation,
						partitionset.Tag(metadata.NewID()))
				case one.Stopped:
					s.StopLog(t.key(), self, *l.brokers.Load())
				case one.Ahead:
					s.ReportFoundEpoch(t.key(), l.id, one.LeaderEpoch)
				default:
					s.Serve(t.key(), self, one.LeaderEpoch)
				}
				return nil
			})
		}
		for _, set := range l.w.store.names() {
			if len(changes[set]) > 0 {
				ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
				l.writer.ChangeStatuses(ctx, set, false, changes[set]) // the next report repeats it
				cancel()
			}
		}
	}
}

// changeISR sends ISR changes to the API server. All changes of a set are sent in one write.
func (l *liveBroker) changeISR(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	l.isrChanges.Add(1)
	defer l.isrChanges.Add(-1)
	bySet := map[string][]int{}
	for i, change := range changes {
		t := l.w.meta.topicByID(change.Topic)
		bySet[t.set] = append(bySet[t.set], i)
	}
	ctx, cancel := context.WithTimeout(ctx, metadata.ChangeISRTimeout)
	defer cancel()
	var sets sync.WaitGroup
	for set, indexes := range bySet {
		sets.Go(func() {
			decisions, epochs := make([]commit.Change, len(indexes)), make([]atomic.Int64, len(indexes))
			for i, index := range indexes {
				decisions[i] = func(s *partitionset.Set) error {
					epoch, err := s.ChangeISR(l.w.meta.topicByID(changes[index].Topic).key(),
						changes[index], *l.brokers.Load())
					epochs[i].Store(epoch)
					return err
				}
			}
			for i, err := range l.writer.ChangeStatuses(ctx, set, false, decisions) {
				if errors.Is(err, commit.ErrConflict) || errors.Is(err, commit.ErrNotFound) {
					err = errors.Join(metadata.ErrISRConflict, err)
				}
				settled(indexes[i], epochs[i].Load(), err)
			}
		})
	}
	sets.Wait()
}

// isolate disconnects the broker from the API server and from all other brokers for a while, but
// not from its clients. It is called when the broker does not know the outcome of an ISR change.
func (l *liveBroker) isolate(d time.Duration) {
	l.w.tracef("broker %d is isolated for %s", l.id, d)
	for id := apiServer; int(id) < len(l.w.brokers); id++ {
		l.w.net.disconnect(l.id, id, 1)
	}
	l.w.spawn(func() {
		_ = sleep(l.w.ctx, d)
		for id := apiServer; int(id) < len(l.w.brokers); id++ {
			l.w.net.disconnect(l.id, id, -1)
		}
	})
}

// kill ends the process. Its goroutines can continue for a moment, but they reach no other node,
// and their disk is no longer read.
func (l *liveBroker) kill() {
	l.dead.Store(true)
	l.broker.live.Store(nil)
	l.w.net.change(func() {}) // wakes the messages that wait in the network
	l.w.spawn(l.shut)
}

// shut closes the parts of the process in order. If it is called twice, the second call waits for
// the first. After a fault it releases the resources of the dead process. It does not use a
// sync.Once, because a goroutine that blocks on the lock of a sync.Once would stop the bubble's
// time.
func (l *liveBroker) shut() {
	if l.closes.Swap(true) {
		<-l.closed
		return
	}
	defer close(l.closed)
	l.cancel()
	l.applying.Wait()
	l.wire.wait()
	l.coordinators.close()
	l.set.Close()
	l.cleaner.Close()
	if err := l.store.Close(); err != nil && !l.dead.Load() &&
		!l.errors.hasOccurred() {
		l.w.fail("broker %d failed to close: %v", l.id, err)
	}
}

// stop performs a controlled shutdown, like internal/broker.
func (l *liveBroker) stop() {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	if l.announce(ctx) == nil {
		for image := l.image.Load(); image != nil && image.DependsOn(l.id); image = l.image.Load() {
			if sleep(ctx, 50*time.Millisecond) != nil {
				break
			}
		}
	}
	if l.dead.Load() {
		return // a fault has ended the process before
	}
	l.exit()
}

// announce announces the controlled shutdown.
func (l *liveBroker) announce(ctx context.Context) error {
	if l.w.parent == nil {
		return l.api.call(ctx, func() error { l.w.meta.leave(l.id, l.epoch.Load()); return nil })
	}
	client := l.client.Load()
	if client == nil {
		return errUnreachable
	}
	return client.AnnounceShutdown(ctx)
}
