package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/metadata/remote"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// Values from internal/dev. startGrace is the time for which the first elections wait for brokers.
	// balanceDelay is the time for which the set of brokers must be unchanged before leadership
	// returns to the preferred leaders.
	startGrace   = 3 * time.Second
	balanceDelay = 10 * time.Second
)

var errProcessEnded = errors.New("the process has ended")

// parent is the machine of the process that owns the metadata in `heartwood dev --processes`. The
// process has the node id of the API server, so faults of the API server's connections apply to it.
type parent struct {
	w    *world
	live atomic.Pointer[parentProcess] // nil: the process is down; only the controller stores it
	file metadataFile
	mu   struct {
		sync.Mutex
		disk   *vfs.Mem // disk that the next process finds
		random *rand.Rand
	}
}

// parentProcess is a process with the local metadata store. It serves the brokers' connections.
type parentProcess struct {
	*parent
	ctx      context.Context
	cancel   context.CancelFunc
	store    *local.Store
	disk     *processDisk
	dead     atomic.Bool
	stopping atomic.Bool // true while the whole cluster stops
	sessions sync.WaitGroup
	started  time.Time
	mu       struct {
		sync.Mutex
		serving     map[int32]bool        // brokers with a session
		registering map[int32]*liveBroker // process that has registered last, by broker
		cleanEpochs map[int32]int64       // clean epochs of these processes
		proposed    map[proposal]int      // members in ISR changes that the store is making
	}
	// Only the controller uses the following fields.
	released bool
	brokers  []metadata.Broker // brokers in the image at lastChange
	change   time.Time
	// accepting is true while the store performs unclean elections.
	accepting atomic.Bool
}

// proposal is a replica that a leader proposes as a member of the ISR.
type proposal struct {
	topic       string
	leaderEpoch int32
	broker      int32
	epoch       int64
}

func newParent(w *world) *parent {
	p := &parent{w: w}
	p.file.w = w
	p.mu.disk, p.mu.random = vfs.NewMem(), rand.New(rand.NewPCG(w.seed, 11))
	return p
}

// intN returns a random number below n.
func (p *parent) intN(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.random.IntN(n)
}

// start starts the process like `heartwood dev`: it opens the store, applies the manifests, and
// holds elections until the brokers have registered.
func (p *parent) start() {
	if p.live.Load() != nil {
		return
	}
	p.w.tracef("parent process starts")
	process := &parentProcess{parent: p, started: time.Now()}
	process.ctx, process.cancel = context.WithCancel(p.w.ctx)
	p.mu.Lock()
	process.disk = &processDisk{Mem: p.mu.disk, process: process}
	p.mu.Unlock()
	process.mu.serving, process.mu.registering = map[int32]bool{}, map[int32]*liveBroker{}
	process.mu.cleanEpochs, process.mu.proposed = map[int32]int64{}, map[proposal]int{}
	isNew := p.file.load(process.disk.Mem)
	store, err := local.Open(process.disk, metadataName)
	if err == nil {
		process.store = store
		err = store.Apply(p.manifests(isNew))
	}
	if err == nil && isNew {
		err = store.Apply(p.manifests(false)) // clients can now change the topics
	}
	if err != nil {
		p.w.fail("parent process failed to start: %v", err)
		process.cancel()
		return
	}
	store.Hold()
	if isNew {
		p.nameTopics(store)
	}
	p.live.Store(process)
	p.w.spawn(func() {
		<-process.ctx.Done()
		process.sessions.Wait()
		store.Close()
	})
}

// manifests returns the manifests of the topics for a new cluster. For an existing cluster, they
// contain only the number of brokers, which allows clients to change the topics.
func (p *parent) manifests(isNew bool) *local.Manifests {
	m := &local.Manifests{Brokers: p.w.scale.brokers}
	for i, t := range p.w.meta.topics {
		if !isNew {
			m.KeepTopics = append(m.KeepTopics, t.name)
			continue
		}
		resource := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Cluster: "dev", TopicName: t.name,
			Partitions: 1, ReclaimPolicy: v1alpha1.ReclaimRetain}}
		resource.Name = fmt.Sprint("topic", i)
		number := int32(p.w.profile.replicas)
		resource.Spec.Replicas = &number
		resource.Spec.InitialReplicas = []v1alpha1.InitialReplicas{
			{Replicas: p.w.meta.firstReplicas(i)}}
		m.Topics = append(m.Topics, resource)
	}
	return m
}

// nameTopics stores the ids of the new cluster and of its topics.
func (p *parent) nameTopics(store *local.Store) {
	p.w.cluster = store.Image().ClusterID
	for _, t := range p.w.meta.topics {
		t.id = store.Image().Topic(t.name).ID
	}
}

// end ends the process now. If cut is set, the machine loses all or some of the unsynced writes.
func (p *parentProcess) end(cut bool) {
	if p.dead.Swap(true) {
		return
	}
	p.parent.mu.Lock()
	defer p.parent.mu.Unlock()
	random := p.parent.mu.random
	switch {
	case !cut:
		p.parent.mu.disk = p.disk.Mem.KillClone()
	case random.IntN(2) == 0:
		p.parent.mu.disk = p.disk.Mem.CrashClone()
	default:
		p.parent.mu.disk = p.disk.Mem.CrashClonePartly(random.Uint64())
	}
	p.cancel() // closes the connections
}

// supervise does the periodic work of `heartwood dev`, and restarts the process after it has ended.
// The controller calls it.
func (p *parent) supervise() {
	live := p.live.Load()
	if live == nil {
		return
	}
	if live.dead.Load() {
		p.w.tracef("parent process has ended, %d files were renamed and not synced",
			p.file.unsynced())
		p.live.Store(nil)
		p.w.scale.count.parentEnds++
		p.w.schedule(p.w.downtime(), p.start)
		return
	}
	if live.stopping.Load() && live.idle() {
		live.end(false)
		return
	}
	now := time.Now()
	if !live.released && now.Sub(live.started) >= startGrace {
		live.released = live.store.Release() == nil
	}
	if brokers := live.store.Image().Brokers; !slices.Equal(brokers, live.brokers) {
		live.brokers, live.change = brokers, now
	}
	if now.Sub(live.change) >= balanceDelay {
		_ = live.store.Balance() // an error means that the process has ended
		live.change = now
	}
	if p.w.meta.acceptLoss.Load() {
		live.accepting.Store(true)
		_ = live.store.AcceptDataLoss()
		live.accepting.Store(false)
	}
}

// fault injects a fault of the parent process, or makes the process move leadership.
func (p *parent) fault() {
	live, w := p.live.Load(), p.w
	if !p.up() {
		return
	}
	switch kind := w.random.IntN(9); kind {
	case 0:
		w.tracef("parent process moves leaders to their preferred replicas")
		_ = live.store.Balance()
	case 1:
		t := w.randomTopic()
		w.tracef("%s: a client requests the preferred leader", t.name)
		_ = live.store.ElectPreferred(w.ctx, []metadata.PartitionRef{{Topic: t.name}})
	case 2, 3:
		w.tracef("parent process is killed; power cut: %t", kind == 3)
		live.end(kind == 3)
	case 4:
		p.stopCluster(live)
	default:
		steps := int32(1 + w.random.IntN(12))
		w.tracef("parent process ends in %d steps of its disk; power cut: %t", steps, kind > 6)
		live.disk.endAfter(steps, kind > 6)
	}
}

// stopCluster stops all processes gracefully, the parent process last. Each process is started
// again later.
func (p *parent) stopCluster(live *parentProcess) {
	p.w.tracef("the whole cluster stops")
	if live.store.LeaveAll() != nil {
		return // the process has ended
	}
	live.stopping.Store(true)
	for _, b := range p.w.members() {
		if l := b.live.Load(); l != nil && !b.stopping {
			b.stopping = true
			p.w.spawn(l.exit)
		}
	}
}

// up reports whether the process runs.
func (p *parent) up() bool {
	live := p.live.Load()
	return live != nil && !live.dead.Load()
}

// move reassigns a partition. It reports whether the process has executed the request.
func (p *parent) move(t *topic, target []int32) bool {
	live := p.live.Load()
	if !p.up() {
		return false
	}
	err := live.store.Reassign(p.w.ctx, []metadata.Move{{Topic: t.name, Replicas: target}})[0]
	if live.dead.Load() {
		return false
	}
	if err != nil {
		p.w.fail("%s: reassignment to %v: %v", t.name, target, err)
	}
	return true
}

// rescale applies the number of brokers.
func (p *parent) rescale() {
	if live := p.live.Load(); p.up() {
		if err := live.store.Apply(p.manifests(false)); err != nil && !live.dead.Load() {
			p.w.fail("apply %d brokers: %v", p.w.scale.brokers, err)
		}
	} // otherwise the next process applies the number
}

// connect opens a connection from a broker process to the parent process. As in `heartwood dev`, a
// broker process runs only after the previous process's session has ended.
func (p *parent) connect(l *liveBroker) (net.Conn, error) {
	if err := p.w.net.send(l.ctx, l.id, apiServer); err != nil {
		return nil, err
	}
	live := p.live.Load()
	if l.dead.Load() || live == nil || live.dead.Load() || !live.begin(l.id) {
		return nil, errUnreachable
	}
	near, nearEnd := net.Pipe()
	farEnd, far := net.Pipe()
	p.w.spawn(func() {
		p.w.carry(farEnd, nearEnd, l.id, apiServer,
			func() bool { return !l.dead.Load() && !live.dead.Load() })
	})
	// Bytes that the parent process has sent arrive even if the process has ended meanwhile.
	p.w.spawn(func() {
		p.w.carry(nearEnd, farEnd, apiServer, l.id, func() bool { return !l.dead.Load() })
	})
	p.w.spawn(func() { live.serve(l, far) })
	return near, nil
}

// begin records the session of a broker. It fails if the broker already has a session.
func (p *parentProcess) begin(broker int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.serving[broker] || p.stopping.Load() || p.ctx.Err() != nil {
		return false
	}
	p.mu.serving[broker] = true
	p.sessions.Add(1)
	return true
}

// idle reports whether no broker has a session.
func (p *parentProcess) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.serving) == 0
}

// serve serves a broker process until its session ends.
func (p *parentProcess) serve(l *liveBroker, conn net.Conn) {
	defer p.sessions.Done()
	err := remote.Serve(p.ctx, processConn{conn, &p.dead}, l.id,
		parentSession{local.Session{Store: p.store, Broker: l.id}, p, l})
	if !p.dead.Load() {
		p.w.tracef("session of broker %d has ended: %v", l.id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.serving, l.id)
}

// processConn is a process's connection. It sends nothing after the process has ended.
type processConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c processConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

// parentSession passes a broker process's requests to the store. Some ISR changes are made although
// their sender receives no response, or only after the sender has abandoned them.
type parentSession struct {
	local.Session
	process *parentProcess
	l       *liveBroker
}

func (s parentSession) Run(ctx context.Context, self metadata.Broker,
	apply func(*metadata.Image)) error {
	s.process.mu.Lock()
	s.process.mu.registering[self.ID] = s.l
	s.process.mu.cleanEpochs[self.ID] = self.CleanEpoch
	s.process.mu.Unlock()
	return s.Session.Run(ctx, self, apply)
}

func (s parentSession) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	failure := noFailure
	if !s.process.w.isHealed() {
		switch s.process.intN(8) {
		case 0:
			failure = answerLost
		case 1:
			failure = writeLate
		}
	}
	if failure == noFailure {
		s.change(ctx, changes, settled)
		return
	}
	change := func() { s.change(s.process.ctx, changes, func(int, int64, error) {}) }
	if failure == answerLost {
		change()
	} else {
		s.process.spawnLate(change)
	}
	for i := range changes {
		settled(i, 0, errNoAnswer)
	}
}

// change passes ISR changes to the store.
func (s parentSession) change(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	s.process.propose(changes, 1)
	defer s.process.propose(changes, -1)
	s.Session.ChangeISR(ctx, changes, settled)
}

// propose records the start (by 1) or the end (by -1) of ISR changes.
func (p *parentProcess) propose(changes []metadata.ISRChange, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, change := range changes {
		for _, m := range change.To {
			p.mu.proposed[proposal{p.w.meta.topicByID(change.Topic).name, change.LeaderEpoch, m.Broker,
				m.Epoch}] += by
		}
	}
}

// spawnLate executes a request some seconds later.
func (p *parentProcess) spawnLate(request func()) {
	late := time.Second + time.Duration(p.intN(7))*time.Second
	p.sessions.Add(1)
	p.w.spawn(func() {
		defer p.sessions.Done()
		if sleep(p.ctx, late) == nil {
			request()
			p.w.countLateWrite()
		}
	})
}
