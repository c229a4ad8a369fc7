package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const (
	faultsTime = 25 * time.Second // simulated time with faults
	healTime   = 90 * time.Second // simulated time for the recovery
	traceMax   = 400

	tombstoneRetention = 2 * time.Second
)

// profile is a run's configuration. It depends on the run's seed.
type profile struct {
	brokers, replicas, minISR int // brokers is the number at the start
	flushInterval, lagMax     time.Duration
	allowLoss                 bool // true if faults can destroy the last copy of a record
	// replacesReplica is true if, before the other faults, one broker is down for a while and is not a
	// replica during this time.
	replacesReplica bool
	// lazy is true if the cleaners leave most of the garbage. The replicas then have different
	// garbage.
	lazy bool
	// stayOdds determines how often consumers switch: they change the replica from which they read in
	// one of stayOdds fetches.
	stayOdds   int
	fetchBytes int // maximum number of bytes per fetch
	faultEvery time.Duration
	expiry     map[string]expiry // by topic
	sets       int32             // number of PartitionSets
	// takeover is the time for which the operator leaves an ISR change to the leader.
	takeover time.Duration
	// decideEvery is the interval at which an operator decides even without changes.
	decideEvery time.Duration
	// sharedPower is true if the power of all brokers may fail at one moment.
	sharedPower bool
	diskErrors  bool // disks return errors
	// overWire is true if followers and consumers use Kafka's protocol over connections.
	overWire bool
}

// world is one run: the cluster, its clients, and the controller that injects faults.
type world struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand // used only by the controller
	profile profile
	logger  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	begin  time.Time

	net   *network
	meta  *controlPlane
	store *objectStore
	power *power
	// inspecting is true while the simulation reads logs itself, without errors of the disk.
	inspecting atomic.Bool
	// parent is the process with the local metadata store. If it is nil, the API server has the
	// metadata.
	parent    *parent
	operators struct { // used only by the controller
		started int
		running []*operator
	}
	cluster string    // id of the cluster
	brokers []*broker // all brokers, including those not added yet
	scale   scale
	oracle  *oracle
	// exactlyOnce is nil unless the clients use coordinators (TestExactlyOnce). If it is set, the
	// oracle checks nothing.
	exactlyOnce *exactlyOnce
	history     history
	tails       []*client
	stopped     chan *liveBroker // processes that have completed a controlled shutdown
	scheduled   []event          // future actions of the controller, such as the end of a fault

	mu struct {
		sync.Mutex
		trace          []string // last traceMax events, for the report of a violation
		violation      string
		processes      uint64 // number of started brokers and operators
		count          tally
		healed         bool // true after all faults have ended
		writersStopped bool
	}
}

// event is a scheduled action of the controller.
type event struct {
	moment time.Time
	do     func()
}

func newProfile(random *rand.Rand) profile {
	p := profile{
		brokers: 3 + random.IntN(3), replicas: 2 + random.IntN(2), minISR: 1 + random.IntN(2),
		flushInterval: []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second,
			time.Hour}[random.IntN(4)],
		lagMax:          []time.Duration{2 * time.Second, 5 * time.Second}[random.IntN(2)],
		allowLoss:       random.IntN(4) == 0,
		faultEvery:      time.Duration(300+random.IntN(1500)) * time.Millisecond,
		replacesReplica: random.IntN(5) == 0,
	}
	if p.allowLoss {
		p.minISR = 1
	}
	p.expiry, p.overWire = newExpiry(random), random.IntN(5) == 0
	p.sets = int32(1 + random.IntN(2))
	p.takeover = []time.Duration{5 * time.Second, 30 * time.Second}[random.IntN(2)]
	p.decideEvery = 100 * time.Millisecond
	p.sharedPower = *powerFlag || random.IntN(4) == 0
	p.diskErrors = *errorsFlag || random.IntN(4) == 0
	p.stayOdds, p.fetchBytes = 8, 1<<20
	if p.lazy = random.IntN(2) == 0; p.lazy {
		p.stayOdds, p.fetchBytes = 2, 600
	}
	return p
}

// runSeed runs one seed and returns its tally. It fails if the run violates an invariant.
func runSeed(t *testing.T, seed uint64, out io.Writer) (reached tally) {
	w := simulate(t, seed, out, usesParent(seed), func(*world) {})
	if w == nil {
		return tally{}
	}
	if w.mu.violation != "" {
		for _, line := range w.mu.trace {
			t.Log(line)
		}
		t.Fatalf("seed %d: %s\nrepeat: go test ./test/sim -sim.seed=%d -v", seed,
			w.mu.violation, seed)
	}
	reached = w.oracle.tally()
	reached.add(w.scale.count)
	reached.add(w.mu.count)
	reached.add(w.store.mu.writes)
	if w.profile.overWire {
		reached.overWire++
	}
	if w.parent != nil {
		reached.withParent++
	}
	reached.histories, reached.unchecked = w.history.check(t, seed, w.oracle.lostRecords)
	return reached
}

// usesParent reports whether a run stores its metadata like `heartwood dev`.
func usesParent(seed uint64) bool {
	return *parentFlag || rand.New(rand.NewPCG(seed, 9)).IntN(4) == 0
}

// simulate runs one seed. It returns the world after the run, or nil if the test has failed. If
// withParent is set, a parent process holds the metadata. prepare is called before the run.
func simulate(t *testing.T, seed uint64, out io.Writer, withParent bool,
	prepare func(*world)) (finished *world) {
	cryptotest.SetGlobalRandom(t, seed) // for the ids of topics, disks and replica incarnations
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, out)
		if withParent {
			w.parent = newParent(w)
		}
		prepare(w)
		w.run()
		finished = w
	})
	return finished
}

func newWorld(t *testing.T, seed uint64, out io.Writer) *world {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, seed: seed, random: random, profile: newProfile(random),
		cluster: "simulated", logger: slog.New(slog.DiscardHandler), net: newNetwork(seed),
		begin: time.Now(), stopped: make(chan *liveBroker, 64),
	}
	if out != nil {
		w.logger = slog.New(slog.NewTextHandler(out, nil))
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.meta, w.store = newControlPlane(w), newObjectStore(w)
	w.oracle, w.power = newOracle(w), newPower(w)
	w.net.fast = w.profile.sharedPower
	w.addTopics()
	for id := range w.profile.brokers + spareBrokers {
		w.brokers = append(w.brokers, newBroker(w, int32(id)))
	}
	w.scale.brokers = w.profile.brokers
	w.tracef("profile %+v", w.profile)
	return w
}

// addTopics adds a topic of each kind, with one partition each.
func (w *world) addTopics() {
	for i, kind := range []string{"plain", "compacted", "synced"} {
		settings := topicconfig.Default()
		settings.SegmentBytes, settings.SegmentAge, settings.MinInSyncReplicas = 4000,
			6*time.Second, w.profile.minISR
		settings.RetentionTime = topicconfig.Unlimited
		if kind != "plain" {
			settings.Compact, settings.Delete = true, false
			settings.MinDirtyPercent, settings.TombstoneRetention, settings.SegmentBytes = 5,
				tombstoneRetention, 1500
			if w.profile.lazy {
				settings.MaxGarbagePercent = 90
			}
		}
		settings.Fsync = kind == "synced"
		w.profile.expiry[kind].set(&settings)
		t := &topic{name: kind, id: metadata.ID{byte(i + 1)}, settings: settings}
		w.meta.topics = append(w.meta.topics, t)
		w.oracle.add(t)
	}
	w.meta.createSets(w.profile.sets)
}

// run injects faults for a while, ends all faults, and checks the result.
func (w *world) run() {
	defer w.shutDown()
	w.startCluster()
	w.startClients()
	if w.profile.replacesReplica {
		w.runFor(w.randomDuration(2*time.Second, 5*time.Second))
		w.runFor(w.removeAndRestoreReplica(w.randomBroker()) + 3*time.Second)
	}
	for end := time.Now().Add(faultsTime); time.Now().Before(end) && !w.failed(); {
		w.injectFault()
		w.runFor(w.profile.faultEvery/2 +
			time.Duration(w.random.Int64N(int64(w.profile.faultEvery))))
	}
	w.heal()
}

// startCluster starts the brokers, and the processes that decide about their partitions. All
// brokers register before the first election.
func (w *world) startCluster() {
	if w.parent != nil {
		w.parent.start()
	}
	for _, b := range w.members() {
		b.start()
	}
	w.runFor(2 * time.Second)
	if w.parent == nil {
		w.startOperator()
		w.spawn(w.changeNeighbors)
	}
}

// runFor lets simulated time pass. Meanwhile the controller runs its scheduled actions and checks
// the invariants.
func (w *world) runFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !w.failed(); {
		time.Sleep(min(time.Until(end), 100*time.Millisecond))
		progress.Add(1)
		w.settle()
		w.runDue()
		w.continueDraining()
		w.settle()
		w.meta.noticeExpiry()
		if w.exactlyOnce == nil {
			w.oracle.check(false)
		}
	}
	w.settle()
	if w.exactlyOnce == nil {
		w.oracle.check(true)
	}
}

// settle waits until all goroutines wait for simulated time, and completes a power cut.
func (w *world) settle() {
	synctest.Wait()
	w.power.endProcesses()
}

// runDue runs the scheduled actions that are due, and processes completed controlled shutdowns.
func (w *world) runDue() {
	for range len(w.stopped) {
		l := <-w.stopped
		w.tracef("controlled shutdown of broker %d completed", l.id)
		l.broker.stopping = false
		l.broker.exited(exit{epoch: l.epoch.Load(), graceful: true})
		l.broker.live.Store(nil)
		w.meta.processExited(l.id, l.epoch.Load())
		w.schedule(w.downtime(), func() { w.start(l.broker) })
	}
	var left []event
	for _, e := range w.scheduled {
		if e.moment.After(time.Now()) {
			left = append(left, e)
			continue
		}
		e.do()
	}
	w.scheduled = left
	if w.parent != nil {
		w.parent.supervise()
	}
}

func (w *world) schedule(after time.Duration, do func()) {
	w.scheduled = append(w.scheduled, event{time.Now().Add(after), do})
}

// spawn runs f in a goroutine for which the run waits at its end.
func (w *world) spawn(f func()) { w.tasks.Go(f) }

// shutDown ends all processes, and waits for all goroutines of the run.
func (w *world) shutDown() {
	w.cancel()
	for _, b := range w.brokers {
		if l := b.live.Load(); l != nil {
			l.shut()
		}
	}
	w.tasks.Wait()
}

// tracef adds an event to the trace. The report of a violation contains the trace.
func (w *world) tracef(format string, args ...any) {
	line := fmt.Sprintf("%8.3f "+format, append([]any{time.Since(w.begin).Seconds()}, args...)...)
	w.logger.Info("event", "text", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.trace = append(w.mu.trace, line); len(w.mu.trace) > traceMax {
		w.mu.trace = w.mu.trace[1:]
	}
}

// fail reports a violation, which ends the run. Only the first violation is kept.
func (w *world) fail(format string, args ...any) {
	if w.failed() {
		return
	}
	w.tracef("VIOLATION "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.violation == "" {
		w.mu.violation = fmt.Sprintf("after %s: ", time.Since(w.begin)) +
			fmt.Sprintf(format, args...)
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.violation != ""
}

// apiFailure is the kind of a failed write to the API server.
type apiFailure int

const (
	noFailure  apiFailure = iota
	answerLost            // the write is executed, but the broker receives no response
	writeLate             // the broker receives no response, and the write is executed later
)

func (w *world) isHealed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.healed
}

// nextProcess returns the number of a new process.
func (w *world) nextProcess() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.processes++
	return w.mu.processes
}

func (w *world) countLateWrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.count.late++
}

func (w *world) countRelist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.count.relists++
}
