package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// broker is a machine: a disk, and at most one life on it.
type broker struct {
	w    *world
	id   int32
	disk *vfs.Mem
	life atomic.Pointer[life] // nil: it is down

	stopping bool
	ended    []ending // one for each life that is over; of the controller
}

// ending is how a life of a broker ended.
type ending struct {
	epoch      int64
	lostCached bool // what was not synced
	lostAll    bool
	inOrder    bool
}

// life is one incarnation.
type life struct {
	*broker
	ctx     context.Context
	cancel  context.CancelFunc
	witness *witness
	store   *logstore.Store
	cleaner *cleaner.Cleaner
	set     *replica.Set
	wire    *listener    // nil unless the brokers of this run speak Kafka's protocol
	epoch   atomic.Int64 // 0: not registered yet
	image   atomic.Pointer[metadata.Image]
	dead    atomic.Bool // nothing of it reaches anybody any more
	closes  atomic.Bool // shut was called
	closed  chan struct{}
	follows sync.WaitGroup // of who applies images
}

func newBroker(w *world, id int32) *broker {
	b := &broker{w: w, id: id}
	b.replaceDisk()
	return b
}

func (b *broker) replaceDisk() {
	b.disk = vfs.NewMem()
	if err := errors.Join(b.disk.MkdirAll("/data"), b.disk.SyncDir("/")); err != nil {
		b.w.fail("make a disk: %v", err)
	}
}

// start begins a new life on the disk.
func (b *broker) start() {
	witness := newWitness(b, b.w.logger.Handler())
	logger := slog.New(witness).With("broker", b.id)
	store, err := logstore.Open(logstore.Options{FS: b.disk, Dir: "/data", Logger: logger,
		FlushInterval: b.w.profile.flushInterval, RetentionInterval: retentionInterval})
	if err != nil {
		b.w.fail("broker %d does not start: %v", b.id, err)
		return
	}
	l := &life{broker: b, store: store, witness: witness, closed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(b.w.ctx)
	l.cleaner = cleaner.New(store,
		cleaner.Options{Logger: logger, MemoryBytes: 1 << 20})
	l.set = replica.NewSet(replica.Options{
		NodeID: b.id, Cluster: "simulated", Store: store, Logger: logger, Dial: l.dial,
		ChangeISR: metadata.ChangeISREach(64, l.changeISR), LagMax: b.w.profile.lagMax,
	})
	if b.w.profile.wired {
		l.wire = l.listen(logger)
	}
	b.life.Store(l)
	l.follows.Add(1)
	b.w.spawn(func() {
		defer l.follows.Done()
		l.follow()
	})
}

// ask sends a request to the API server and awaits the answer.
func (l *life) ask(ctx context.Context, request func() error) error {
	if err := l.w.net.travel(ctx, l.id, apiServer); err != nil {
		return err
	}
	if l.dead.Load() {
		return errLost
	}
	err := request()
	if lost := l.w.net.travel(ctx, apiServer, l.id); lost != nil {
		return lost
	}
	return err
}

// follow registers, keeps the lease, and applies images as they come, until the life ends.
func (l *life) follow() {
	self := metadata.Broker{ID: l.id, Endpoints: "kafka://sim:1",
		Directory: metadata.ID(l.store.DirectoryID()).String(), CleanEpoch: l.store.CleanEpoch()}
	for {
		registered := func() error { l.epoch.Store(l.w.meta.register(self)); return nil }
		if l.ask(l.ctx, registered) == nil {
			break
		}
		if sleep(l.ctx, time.Second) != nil {
			return
		}
	}
	l.w.spawn(l.keepLease)
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		image, news := l.w.meta.image()
		if err := l.w.net.travel(l.ctx, apiServer, l.id); err == nil {
			l.apply(image)
		} else if l.ctx.Err() == nil {
			continue // again, from what is now
		}
		select {
		case <-l.ctx.Done():
			return
		case <-retry.C:
		case <-news:
		}
		retry.Reset(3 * time.Second)
	}
}

func (l *life) apply(image *metadata.Image) {
	if l.dead.Load() {
		return
	}
	if self, up := image.Broker(l.id); up {
		l.store.NoteEpoch(self.Epoch)
	}
	served, err := l.set.Apply(image)
	if err != nil {
		l.w.logger.Warn("image not applied", "broker", l.id, "error", err)
	}
	l.image.Store(image)
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	_ = l.ask(ctx, func() error { l.w.meta.serving(l.id, served); return nil })
}

func (l *life) keepLease() {
	for sleep(l.ctx, time.Second) == nil {
		ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
		_ = l.ask(ctx, func() error { l.w.meta.renew(l.id, l.epoch.Load()); return nil })
		cancel()
	}
}

// changeISR is the metadata store's, as this broker has it.
func (l *life) changeISR(ctx context.Context, change metadata.ISRChange) error {
	var late time.Duration
	trouble := l.w.trouble(change)
	if trouble == writeIsLate {
		late = time.Second + time.Duration(change.LeaderEpoch%7)*time.Second
	}
	err := l.ask(ctx, func() error { return l.w.meta.changeISR(ctx, change, late) })
	if trouble != noTrouble && change.LeaderEpoch%2 == 0 {
		l.isolate(2*l.w.profile.lagMax + 3*time.Second)
	}
	if err == nil && trouble == answerIsLost {
		return errNoAnswer
	}
	return err
}

// isolate cuts the broker off from everybody but its clients: just now it does not know who is in
// sync on record.
func (l *life) isolate(d time.Duration) {
	l.w.note("broker %d is isolated for %s", l.id, d)
	for id := apiServer; int(id) < len(l.w.brokers); id++ {
		l.w.net.separate(l.id, id, 1)
	}
	l.w.spawn(func() {
		_ = sleep(l.w.ctx, d)
		for id := apiServer; int(id) < len(l.w.brokers); id++ {
			l.w.net.separate(l.id, id, -1)
		}
	})
}

// down ends the life; what it still does reaches nobody, and goes to a disk that nobody reads.
func (l *life) down() {
	l.dead.Store(true)
	l.broker.life.Store(nil)
	l.w.net.change(func() {}) // who waits for an answer looks again
	l.w.spawn(l.shut)
}

// shut closes everything in order, once; who comes second waits. Of a life that was ended by a
// fault it is the wreck that is closed. Nobody waits at a lock here, as at that of a sync.Once:
// that would stop the bubble's time.
func (l *life) shut() {
	if l.closes.Swap(true) {
		<-l.closed
		return
	}
	defer close(l.closed)
	l.cancel()
	l.follows.Wait()
	l.wire.wait()
	l.set.Close()
	l.cleaner.Close()
	if err := l.store.Close(); err != nil && !l.dead.Load() {
		l.w.fail("broker %d does not close: %v", l.id, err)
	}
}

// stop stops a broker in order, as internal/broker does.
func (l *life) stop() {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	if l.ask(ctx, func() error { l.w.meta.leave(l.id, l.epoch.Load()); return nil }) == nil {
		for image := l.image.Load(); image != nil && image.DependsOn(l.id); image = l.image.Load() {
			if sleep(ctx, 50*time.Millisecond) != nil {
				break
			}
		}
	}
	if l.dead.Load() {
		return // it was faster
	}
	l.shut()
	if !l.dead.Swap(true) {
		l.w.stopped <- l
	}
}

// link is a connection between two brokers.
type link struct {
	from, to *life
	ctx      context.Context // the server sees its end
	cancel   context.CancelFunc

	hurries chan struct{} // holds one, once the server has heard of it
}

func (l *life) dial(ctx context.Context, to metadata.Broker) (replica.Peer, error) {
	if err := l.w.net.travel(ctx, l.id, to.ID); err != nil {
		return nil, err
	}
	other := l.w.brokers[to.ID].life.Load()
	if other == nil && !l.dead.Load() { // its machine lives, and says so
		return nil, fmt.Errorf("%w: %w", errUnreachable, syscall.ECONNREFUSED)
	}
	if l.dead.Load() || other.image.Load() == nil {
		return nil, errUnreachable
	}
	if err := l.w.net.travel(ctx, to.ID, l.id); err != nil {
		return nil, err
	}
	if other.wire != nil {
		return l.connect(ctx, other)
	}
	made := &link{from: l, to: other, hurries: make(chan struct{}, 1)}
	made.ctx, made.cancel = context.WithCancel(other.ctx)
	return made, nil
}

func (k *link) Close() error {
	k.cancel()
	return nil
}

// Hurry implements replica.Peer: it travels behind the fetch, or is lost with the connection.
func (k *link) Interrupt() {
	k.from.w.spawn(func() {
		if k.from.w.net.travel(k.ctx, k.from.id, k.to.id) != nil {
			return
		}
		select {
		case k.hurries <- struct{}{}:
		default:
		}
	})
}

// answer is what comes back of a Pull.
type answer struct {
	pulled replica.FollowerResponse
	err    error
}

// Pull implements replica.Peer. A request that was sent arrives, also after its sender has given
// up.
func (k *link) Fetch(ctx context.Context, req *replica.FollowerFetch) (replica.FollowerResponse,
	error) {
	sent := *req
	sent.Partitions, sent.Forgotten = slices.Clone(req.Partitions), slices.Clone(req.Forgotten)
	done := make(chan answer, 1)
	k.from.w.spawn(func() {
		pulled, err := k.serve(&sent)
		done <- answer{pulled, err}
	})
	select {
	case a := <-done:
		return a.pulled, a.err
	case <-ctx.Done():
		return replica.FollowerResponse{}, ctx.Err()
	}
}

func (k *link) serve(req *replica.FollowerFetch) (none replica.FollowerResponse, err error) {
	w := k.from.w
	if err := w.net.travel(w.ctx, k.from.id, k.to.id); err != nil {
		return none, err
	}
	if k.to.dead.Load() || k.from.dead.Load() {
		return none, io.ErrUnexpectedEOF
	}
	request := replica.FetchRequest{
		BytesMin: 1, BytesMax: req.BytesMax, Wait: req.Wait, Replica: &req.Replica,
		Session: req.Session, Forgotten: req.Forgotten, Interrupt: k.hurries,
	}
	for _, p := range req.Partitions {
		request.Partitions = append(request.Partitions, replica.FetchPartition{
			ID: p.ID, Topic: p.Topic, Offset: p.Offset, BytesMax: p.BytesMax,
			LeaderEpoch: p.LeaderEpoch, LastEpoch: p.LastEpoch,
			HighWater: p.HighWater, DurableEnd: p.DurableEnd, TombstoneClean: p.TombstoneClean,
			ReplicasTombstoneClean: p.ReplicasTombstoneClean,
			LogStart:               p.LogStart, ReplicaIncarnation: p.ReplicaIncarnation,
		})
	}
	switch w.net.luck(k.from.id, k.to.id) % 64 {
	case 0: // the request arrives twice, and what the first was answered is lost
		once := request
		once.Wait = 0
		lost, _ := k.to.set.FetchInSession(k.ctx, once)
		for i := range lost.Results {
			_ = pulled(&lost.Results[i])
		}
	case 1: // the leader has given the session up
		request.Session.ID++
	}
	fetched, refused := k.to.set.FetchInSession(k.ctx, request)
	answers := make([]replica.FollowerResult, 0, len(fetched.Results))
	for i := range fetched.Results {
		answers = append(answers, pulled(&fetched.Results[i]))
	}
	if k.to.dead.Load() {
		return none, io.ErrUnexpectedEOF
	}
	if err := w.net.travel(w.ctx, k.to.id, k.from.id); err != nil {
		return none, err
	}
	return replica.FollowerResponse{Session: fetched.Session, Partitions: answers}, refused
}

// pulled is a result as the follower gets it, and releases it.
func pulled(r *replica.FetchResult) replica.FollowerResult {
	answer := replica.FollowerResult{
		ID: r.ID, Err: r.Err, HighWater: r.HighWater, LogStart: r.LogStart, LogEnd: r.LogEnd,
		ReplicasTombstoneClean: r.ReplicasTombstoneClean, DivergingEpoch: -1,
	}
	if r.Diverging != nil {
		answer.DivergingEpoch, answer.DivergingEnd = r.Diverging.Epoch, r.Diverging.End
	}
	answer.Records, answer.Err = taken(r)
	return answer
}

// taken copies the bytes of a result and releases it.
func taken(r *replica.FetchResult) ([]byte, error) {
	if r.Data == nil {
		return nil, r.Err
	}
	defer r.Data.Release()
	if r.Data.Length == 0 {
		return nil, r.Err
	}
	buf := make([]byte, r.Data.Length)
	if _, err := r.Data.File.ReadAt(buf, r.Data.Position); err != nil {
		return nil, err
	}
	return buf, r.Err
}
