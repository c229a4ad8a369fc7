package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/group"
	txn "heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const (
	exactlyOnceRuns = 100 // default number of seeds
	inputRecords    = 400
	copyGroup       = "copier"
	// transactionTimeout is the timeout of the clients' transactions. Some faults last longer.
	transactionTimeout = 8 * time.Second
	// lateFrames is the time after the last transaction during which late requests can arrive.
	lateFrames = 2 * time.Second
)

var outputTopics = []string{"out0", "out1", "out2"}

// exactlyOnce is a run in which clients write transactions through coordinators. The clients append
// unique values to several partitions. They also copy an input, with its offsets. At the end of the
// run:
//
//   - a transaction whose commit was confirmed is visible as a whole, each value once; one that was
//     not committed is not visible; one of unknown outcome is visible as a whole or not at all
//   - a read_committed consumer has received exactly the values that are visible in the end, up to
//     its position
//   - each input record below the committed offset was copied once, and no other record
//   - no transaction is open, neither in a log nor in its coordinator
//
// During the run, the coordinator knows each transaction that is open in a log.
type exactlyOnce struct {
	w         *world
	unchecked bool          // true after an election that lost acknowledged records
	active    atomic.Int32  // number of clients that write
	links     atomic.Uint64 // number of connections between coordinators and other brokers
	mu        struct {
		sync.Mutex
		random         *rand.Rand
		lastProducerID int64
		transactions   []*sentTransaction
		readers        []*committedReader
	}
}

// sentTransaction is a transaction that a client has sent.
type sentTransaction struct {
	by      string
	values  []string
	outcome outcome
}

type outcome int

const (
	notCommitted outcome = iota
	unknownOutcome
	isCommitted
)

func (o outcome) String() string { return [...]string{"not committed", "unknown", "committed"}[o] }

func (e *exactlyOnce) nextProducerID() (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.lastProducerID++
	return 1000 + e.mu.lastProducerID, nil
}

func (e *exactlyOnce) begin(by string) *sentTransaction {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx := &sentTransaction{by: by}
	e.mu.transactions = append(e.mu.transactions, tx)
	return tx
}

func (e *exactlyOnce) set(tx *sentTransaction, now outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx.outcome = now
}

// TestExactlyOnce runs seeds and stops at the first seed that violates an invariant.
func TestExactlyOnce(t *testing.T) {
	runs := exactlyOnceRuns
	switch {
	case *timeFlag > 0:
		runs = math.MaxInt
	case *runsFlag > 0:
		runs = *runsFlag
	}
	begin, completed, sum := time.Now(), 0, [4]int{}
	for seed := range seeds(t, runs) {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			for i, n := range runExactlyOnce(t, seed) {
				sum[i] += n
			}
		})
		if t.Failed() || *seedFlag != 0 {
			return
		}
		if completed++; *timeFlag > 0 && time.Since(begin) >= *timeFlag {
			break
		}
	}
	t.Logf("%d runs: %d transactions not committed, %d unknown, %d committed; %d runs not checked",
		completed, sum[0], sum[1], sum[2], sum[3])
	if sum[notCommitted] < completed || sum[isCommitted] < 10*completed || sum[3] > completed/4 {
		t.Error("the runs did not exercise transactions")
	}
}

// runExactlyOnce returns the number of transactions by outcome. The last element is 1 if the run
// was not checked.
func runExactlyOnce(t *testing.T, seed uint64) (count [4]int) {
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, nil)
		if usesParent(seed) {
			w.parent = newParent(w)
		}
		w.profile.brokers, w.profile.replicas, w.profile.minISR = 3, 3, 2
		w.profile.allowLoss, w.profile.overWire = false, false
		w.profile.decideEvery = 500 * time.Millisecond // this run does not examine the operator
		e := &exactlyOnce{w: w}
		e.mu.random = rand.New(rand.NewPCG(seed, 40))
		w.exactlyOnce = e
		e.addTopics()
		e.run()
		w.mu.Lock()
		violation := w.mu.violation
		w.mu.Unlock()
		if violation != "" {
			for _, line := range w.mu.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s\nrepeat: go test ./test/sim -run TestExactlyOnce -sim.seed=%d",
				seed, violation, seed)
		}
		for _, tx := range e.mu.transactions {
			count[tx.outcome]++
		}
		if e.unchecked {
			count[3] = 1
		}
	})
	return count
}

// addTopics replaces the topics of the world.
func (e *exactlyOnce) addTopics() {
	w := e.w
	w.meta.topics, w.oracle, w.store = nil, newOracle(w), newObjectStore(w)
	names := append([]string{coordinator.OffsetsTopic, metadata.TransactionsTopic, "in"},
		outputTopics...)
	for i, name := range names {
		settings := topicconfig.Default()
		settings.MinInSyncReplicas, settings.SegmentBytes = w.profile.minISR, 8000
		settings.UncleanElection = false
		if i < 2 {
			settings.Compact, settings.Delete, settings.MinDirtyPercent = true, false, 5
		}
		t := &topic{name: name, id: metadata.ID{byte(i + 1)}, settings: settings}
		w.meta.topics = append(w.meta.topics, t)
		w.oracle.add(t)
	}
	w.meta.createSets(w.profile.sets)
}

func (e *exactlyOnce) run() {
	w := e.w
	defer w.shutDown()
	w.startCluster()
	w.runFor(2 * time.Second)
	e.load()
	e.startClients()
	for end := time.Now().Add(faultsTime); time.Now().Before(end) && !w.failed(); {
		e.injectFault()
		w.runFor(w.profile.faultEvery/2 +
			time.Duration(w.random.Int64N(int64(w.profile.faultEvery))))
	}
	e.heal()
	switch {
	case w.failed():
	case e.lostRecords():
		w.tracef("an election has lost records: the outputs are not checked")
		e.unchecked = true
	default:
		e.check()
	}
}

// lostRecords reports whether an election has lost acknowledged records of any topic.
func (e *exactlyOnce) lostRecords() bool {
	return slices.ContainsFunc(e.w.meta.topics,
		func(t *topic) bool { return e.w.oracle.lostRecords(t.name) })
}

// load writes the input before the faults begin. A broker can already isolate itself after an ISR
// change with an unknown outcome, so the partition may have no leader for a while.
func (e *exactlyOnce) load() {
	c := e.newClient("loader", 2, 1)
	for i := range inputRecords {
		batch := c.plainBatch(fmt.Sprintf("in-%d", i))
		err := c.append("in", batch)
		for attempt := 1; err != nil && attempt < 4; attempt++ {
			err = c.append("in", batch)
		}
		if err != nil {
			e.w.fail("load the input: %v", err)
			return
		}
	}
}

func (e *exactlyOnce) startClients() {
	for i := range 4 {
		version := int16(2 * (i % 2))
		c := e.newClient(fmt.Sprint("writer", i), version, uint64(10+i))
		e.spawn(c.write)
	}
	for i := range 2 { // two instances with the same transactional id
		c := e.newClient(copyGroup, 2, uint64(20+i))
		e.spawn(c.copy)
	}
	e.w.spawn(e.watchListed)
	for i := range 2 {
		r := rand.New(rand.NewPCG(e.w.seed, uint64(30+i)))
		e.tail(r)
	}
}

// injectFault injects a fault that loses no acknowledged record.
func (e *exactlyOnce) injectFault() {
	w := e.w
	b, other := w.randomBroker(), w.randomBroker()
	switch w.random.IntN(12) {
	case 0, 1, 2:
		w.kill(b)
	case 3:
		if w.recovered() { // true if the other replicas have all records
			w.cutPower(b)
		}
	case 4, 5:
		w.controlledShutdown(b)
	case 6:
		d := w.randomDuration(100*time.Millisecond, 12*time.Second)
		w.tracef("broker %d is paused for %s", b.id, d)
		w.net.pause(b.id, 1)
		w.schedule(d, func() { w.net.pause(b.id, -1) })
	case 7, 8:
		w.disconnect(b.id, other.id)
	case 9:
		w.disconnect(b.id, apiServer)
	case 10:
		delay := w.randomDuration(10*time.Millisecond, time.Second)
		w.tracef("messages of broker %d are delayed by %s", b.id, delay)
		w.net.delay(b.id, delay)
		w.schedule(w.randomDuration(time.Second, 8*time.Second), func() { w.net.delay(b.id, 0) })
	case 11:
		w.operator()
	}
}

// heal ends all faults. It waits until the cluster has recovered and all transactions have ended.
func (e *exactlyOnce) heal() {
	w := e.w
	if w.failed() {
		return
	}
	w.endFaults()
	for begin := time.Now(); !w.recovered() && !w.failed(); w.runFor(500 * time.Millisecond) {
		if time.Since(begin) > healTime {
			w.fail("not recovered after %s: %s", healTime, w.unrecovered())
			return
		}
	}
	w.stopWriters()
	// Coordinators end transactions at their timeout, but not within 10 s after they were loaded.
	until := time.Now().Add(writeTimeout + 2*transactionTimeout + 10*time.Second)
	for !e.settled() && time.Now().Before(until) && !w.failed() {
		w.runFor(500 * time.Millisecond)
	}
	w.runFor(lateFrames)
}

// settled reports whether all clients have finished and all transactions are completed.
func (e *exactlyOnce) settled() bool {
	l := e.leader(metadata.TransactionsTopic)
	if e.active.Load() > 0 || l == nil {
		return false
	}
	open, err := l.transactions.List(e.w.ctx, txn.Filter{OpenFor: 0})
	return err == nil && len(open) == 0
}

// spawn starts a client.
func (e *exactlyOnce) spawn(run func()) {
	e.active.Add(1)
	e.w.spawn(func() {
		defer e.active.Add(-1)
		run()
	})
}

// leader returns the leader of a topic's partition, or nil.
func (e *exactlyOnce) leader(name string) *liveBroker {
	p := e.w.meta.recorded(name)
	if p.Leader == placement.NoLeader {
		return nil
	}
	if l := e.w.brokers[p.Leader].live.Load(); l != nil && l.image.Load() != nil {
		return l
	}
	return nil
}

// check compares the outputs with the clients' transactions.
func (e *exactlyOnce) check() {
	count, visible := map[string]int{}, map[string][]logRecord{}
	for _, t := range e.w.meta.topics {
		l := e.leader(t.name)
		log, err := l.set.Leader(t.partitionID(), -1)
		if err != nil {
			e.w.fail("%s: %v", t.name, err)
			return
		}
		if open, oldest := log.OpenTransactions(); open > 0 || log.LastStable() < log.LogEnd() {
			e.w.fail("%s: %d transactions are open, the oldest is %+v; last stable offset %d of %d",
				t.name, open, oldest, log.LastStable(), log.LogEnd())
			return
		}
		if slices.Contains(outputTopics, t.name) {
			visible[t.name] = e.allVisible(l, t.name)
			for _, f := range visible[t.name] {
				count[f.value]++
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.mu.readers {
		r.check(visible)
	}
	for _, tx := range e.mu.transactions {
		visible := 0
		for _, value := range tx.values {
			visible += count[value]
			if count[value] > 1 {
				e.w.fail("%s is visible %d times", value, count[value])
			}
		}
		if tx.outcome == isCommitted && visible < len(tx.values) ||
			tx.outcome == notCommitted && visible > 0 ||
			tx.outcome == unknownOutcome && visible > 0 && visible < len(tx.values) {
			e.w.fail("transaction %+v: %d of %d values are visible", *tx, visible, len(tx.values))
		}
	}
	e.checkCopy(count)
	e.checkEnded()
}

// checkEnded checks that the coordinator has completed all transactions.
func (e *exactlyOnce) checkEnded() {
	l := e.leader(metadata.TransactionsTopic)
	open, err := l.transactions.List(e.w.ctx, txn.Filter{OpenFor: 0})
	if err != nil || len(open) > 0 {
		e.w.fail("the coordinator has not completed %+v: %v", open, err)
	}
}

// checkCopy checks that each input record below the committed offset was copied exactly once, and
// that no other records were copied.
func (e *exactlyOnce) checkCopy(count map[string]int) {
	l := e.leader(coordinator.OffsetsTopic)
	found, unstable, err := l.groups.CommittedFor(e.w.ctx, copyGroup, group.Reader{Epoch: -1},
		[]group.TopicPartition{{Topic: "in"}})
	if err != nil || unstable[0] {
		e.w.fail("committed offset of the copier: %+v, unstable %v, %v", found, unstable, err)
		return
	}
	done := max(0, found[0].Offset.Offset)
	for i := range int64(inputRecords) {
		want := 0
		if i < done {
			want = 1
		}
		if got := count[fmt.Sprintf("copy-%d", i)]; got != want {
			e.w.fail("input record %d was copied %d times; the committed offset is %d", i, got, done)
		}
	}
}
