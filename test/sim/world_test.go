package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const (
	faultsTime = 25 * time.Second // of the bubble, in which things break
	healTime   = 90 * time.Second // after which everything must be well again
	notesMax   = 400

	tombstoneRetention = 2 * time.Second
)

// profile is what a seed makes of the cluster.
type profile struct {
	brokers, replicas, minISR int // brokers at the beginning
	flushInterval, lagMax     time.Duration
	wild                      bool // faults may take the last copy of a record
	// first of all a broker is no replica for a while, and down meanwhile; nothing else happens
	// then
	returns bool
	// cleaners leave most of the garbage, each replica another part of it
	lazy bool
	// consumers change the replica that they read from once in so many fetches
	staysFor   int
	fetchBytes int // of which each brings so much
	faultEvery time.Duration
	expiry     map[string]expiry // of topics whose records go with time
	// brokers, and consumers, speak Kafka's protocol over connections
	wired bool
}

// world is one run.
type world struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand // the controller's
	profile profile
	logger  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	began  time.Time

	net     *network
	meta    *authority
	brokers []*broker // that ever are
	scale   scale
	oracle  *oracle
	history history
	tails   []*client
	stopped chan *life // whose orderly stop is done
	due     []event    // what the controller has to undo

	mu struct {
		sync.Mutex
		notes     []string
		violation string
		troubles  uint64
		mended    bool // nothing breaks any more
		calm      bool // producers send no more
	}
}

// event is what the controller has to do later.
type event struct {
	at time.Time
	do func()
}

func newProfile(random *rand.Rand) profile {
	p := profile{
		brokers: 3 + random.IntN(3), replicas: 2 + random.IntN(2), minISR: 1 + random.IntN(2),
		flushInterval: []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second,
			time.Hour}[random.IntN(4)],
		lagMax:     []time.Duration{2 * time.Second, 5 * time.Second}[random.IntN(2)],
		wild:       random.IntN(4) == 0,
		faultEvery: time.Duration(300+random.IntN(1500)) * time.Millisecond,
		returns:    random.IntN(5) == 0,
	}
	if p.wild {
		p.minISR = 1
	}
	p.expiry, p.wired = newExpiry(random), random.IntN(5) == 0
	p.staysFor, p.fetchBytes = 8, 1<<20
	if p.lazy = random.IntN(2) == 0; p.lazy {
		p.staysFor, p.fetchBytes = 2, 600
	}
	return p
}

// play runs one seed; it returns what it has reached.
func play(t *testing.T, seed uint64, out io.Writer) (reached tally) {
	var played *world
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, out)
		w.run()
		w.mu.Lock()
		violation := w.mu.violation
		w.mu.Unlock()
		if violation != "" {
			for _, note := range w.mu.notes {
				t.Log(note)
			}
			t.Fatalf("seed %d: %s\nplay it again: go test ./test/sim -sim.seed=%d -v", seed,
				violation, seed)
		}
		reached = w.oracle.tally()
		reached.add(w.scale.count)
		if w.profile.wired {
			reached.wired++
		}
		played = w
	})
	if played != nil {
		reached.histories, reached.givenUp = played.history.check(t, seed, played.oracle.tainted)
	}
	return reached
}

func newWorld(t *testing.T, seed uint64, out io.Writer) *world {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, seed: seed, random: random, profile: newProfile(random),
		logger: slog.New(slog.DiscardHandler), net: newNetwork(seed),
		began: time.Now(), stopped: make(chan *life, 64),
	}
	if out != nil {
		w.logger = slog.New(slog.NewTextHandler(out, nil))
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.meta = newAuthority(w)
	w.oracle = newOracle(w)
	w.addTopics()
	for id := range w.profile.brokers + spareBrokers {
		w.brokers = append(w.brokers, newBroker(w, int32(id)))
	}
	w.scale.brokers = w.profile.brokers
	w.note("profile %+v", w.profile)
	return w
}

// addTopics makes a topic of each kind, with one partition each.
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
		for j := range w.profile.replicas {
			t.partition.Replicas = append(t.partition.Replicas, int32((i+j)%w.profile.brokers))
		}
		t.partition.Leader = placement.NoLeader
		w.meta.mu.topics = append(w.meta.mu.topics, t)
		w.oracle.add(t)
	}
}

// run plays faults for a while, heals everything, and looks at what is left.
func (w *world) run() {
	defer w.end()
	for _, b := range w.members() {
		b.start()
	}
	w.pass(2 * time.Second) // everybody registers before anybody is elected
	w.startClients()
	if w.profile.returns {
		w.pass(w.some(2*time.Second, 5*time.Second))
		w.pass(w.takeOffAndPutBack(w.somebody()) + 3*time.Second)
	}
	for end := time.Now().Add(faultsTime); time.Now().Before(end) && !w.failed(); {
		w.breakSomething()
		w.pass(w.profile.faultEvery/2 + time.Duration(w.random.Int64N(int64(w.profile.faultEvery))))
	}
	w.heal()
}

// pass lets time pass; meanwhile the controller does what is due and looks at everything.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !w.failed(); {
		time.Sleep(min(time.Until(end), 100*time.Millisecond))
		progress.Add(1)
		synctest.Wait()
		w.doDue()
		w.drained()
		synctest.Wait()
		if time.Since(w.began) > 2*time.Second {
			w.meta.decide()
		}
		w.oracle.look(false)
	}
	synctest.Wait()
	w.oracle.look(true)
}

// doDue does what is due by now, and takes in who has stopped.
func (w *world) doDue() {
	for range len(w.stopped) {
		l := <-w.stopped
		w.note("broker %d has stopped", l.id)
		l.broker.stopping = false
		l.broker.end(ending{epoch: l.epoch.Load(), inOrder: true})
		l.broker.life.Store(nil)
		w.meta.ended(l.id, l.epoch.Load())
		w.later(w.downtime(), func() { w.start(l.broker) })
	}
	var left []event
	for _, e := range w.due {
		if e.at.After(time.Now()) {
			left = append(left, e)
			continue
		}
		e.do()
	}
	w.due = left
}

func (w *world) later(after time.Duration, do func()) {
	w.due = append(w.due, event{time.Now().Add(after), do})
}

// spawn runs f in a goroutine that the run joins.
func (w *world) spawn(f func()) { w.tasks.Go(f) }

// end stops everything.
func (w *world) end() {
	w.cancel()
	for _, b := range w.brokers {
		if l := b.life.Load(); l != nil {
			l.shut()
		}
	}
	w.tasks.Wait()
}

// note keeps what happened, for the report of a failure.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%8.3f "+format, append([]any{time.Since(w.began).Seconds()}, args...)...)
	w.logger.Info("note", "what", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.notes = append(w.mu.notes, line); len(w.mu.notes) > notesMax {
		w.mu.notes = w.mu.notes[1:]
	}
}

// fail ends the run; the first reason counts.
func (w *world) fail(format string, args ...any) {
	if w.failed() {
		return
	}
	w.note("VIOLATION "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.violation == "" {
		w.mu.violation = fmt.Sprintf("after %s: ", time.Since(w.began)) +
			fmt.Sprintf(format, args...)
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.violation != ""
}

// trouble is what becomes of a write to the API server.
type trouble int

const (
	noTrouble    trouble = iota
	answerIsLost         // it was made, and the broker does not hear of it
	writeIsLate          // the broker hears nothing, and then it is made
)

func (w *world) trouble(change metadata.ISRChange) trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.troubles++
	if w.mu.mended {
		return noTrouble
	}
	switch rand.New(rand.NewPCG(w.seed, w.mu.troubles)).IntN(8) {
	case 0:
		return answerIsLost
	case 1:
		return writeIsLate
	}
	return noTrouble
}
