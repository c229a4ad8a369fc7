package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/traffic"
)

const replicatedTopic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: orders}
spec:
  cluster: crash
  partitions: 6
  replicas: 3
  minInSyncReplicas: 2
  segment: {size: 1Mi}
`

// What writes wait for at most in a test: longer is a stall, and its reason is to be looked for.
const writesMissing = 4 * time.Minute

// promises are what the producer was promised, and when.
type promises struct {
	mu    sync.Mutex
	acked map[string][]int        // by key: the numbers that were acknowledged
	last  map[int32]time.Time     // by partition
	gaps  map[int32]time.Duration // by partition: the longest time between two acknowledgements
	count int
}

func (p *promises) acknowledge(r *kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := strconv.Atoi(string(r.Value))
	p.acked[string(r.Key)] = append(p.acked[string(r.Key)], n)
	now := time.Now()
	if last, ok := p.last[r.Partition]; ok {
		p.gaps[r.Partition] = max(p.gaps[r.Partition], now.Sub(last))
	}
	p.last[r.Partition] = now
	p.count++
}

// takeGaps returns the longest gap of each partition since it was asked last.
func (p *promises) takeGaps() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps := slices.Sorted(maps.Values(p.gaps))
	clear(p.gaps)
	return gaps
}

// silent names a partition without an acknowledgement since then.
func (p *promises) silent(partitions int, since time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition := range int32(partitions) {
		if !p.last[partition].After(since) {
			return fmt.Sprintf("partition %d takes no writes", partition)
		}
	}
	return ""
}

// errUnderWay ends a producer whose records are neither acknowledged nor refused.
var errUnderWay = errors.New("records are under way still, four minutes after the last was written")

// produce writes each key's numbers in order, until ctx ends, and waits for what is under way, no
// longer than a stall may take.
func (p *promises) produce(ctx context.Context, client *kgo.Client) error {
	const keys, underWay = 60, 600
	slots := make(chan struct{}, underWay)
	var refused error
	var once sync.Once
	for n := 0; ctx.Err() == nil; n++ {
		for key := range keys {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done(): // nothing is acknowledged any more, and the test has had its time
				return errors.Join(drain(client), refused)
			}
			record := &kgo.Record{Topic: "orders", Partition: int32(key % 6),
				Key: fmt.Append(nil, "key-", key), Value: []byte(strconv.Itoa(n))}
			client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
				<-slots
				if err != nil {
					once.Do(func() { refused = err })
					return
				}
				p.acknowledge(r)
			})
		}
		// 3,000 records a second are load enough beside other tests
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(drain(client), refused)
}

// drain waits for the records under way. Its context is its own: the test's may have ended.
func drain(client *kgo.Client) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), writesMissing, errUnderWay)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("wait for records under way: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// check compares the promises with all that the topic holds.
func (p *promises) check(read []*kgo.Record) error {
	held := map[string][]int{}
	for _, r := range read {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return err
		}
		held[string(r.Key)] = append(held[string(r.Key)], n)
	}
	for key, numbers := range held {
		for i := 1; i < len(numbers); i++ {
			if numbers[i] <= numbers[i-1] {
				return fmt.Errorf("%s: %d comes after %d", key, numbers[i], numbers[i-1])
			}
		}
	}
	for key, numbers := range p.acked {
		for _, n := range numbers {
			if _, found := slices.BinarySearch(held[key], n); !found {
				return fmt.Errorf("%s: %d was acknowledged, and is lost; %d are held", key, n,
					len(held[key]))
			}
		}
	}
	return nil
}

// replicated is a cluster of three brokers, each a process, and a producer that writes with
// acks=all all the while.
type replicated struct {
	*promises
	t         *testing.T
	p         *process.Process
	bootstrap []string
	pids      map[int]int
	stop      context.CancelFunc
	produced  chan error
}

func startReplicated(t *testing.T) *replicated {
	t.Helper()
	setup := process.NewSetup(t, 3, cluster, replicatedTopic)
	setup.HTTP = process.FreePorts(t, 4) // the cluster's, and each broker's
	r := &replicated{
		t: t, p: process.Start(t, append(setup.Args(), "--processes")...), pids: map[int]int{},
		produced: make(chan error, 1),
		promises: &promises{acked: map[string][]int{}, last: map[int32]time.Time{},
			gaps: map[int32]time.Duration{}},
	}
	var before []string
	r.bootstrap, before = r.p.Ready(t)
	for _, line := range before {
		note(r.pids, line)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond), kgo.RecordRetries(1<<30),
		// a hung broker answers nothing
		kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.RecordDeliveryTimeout(writesMissing),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() { r.produced <- r.produce(ctx, client) }()
	r.settled(t)
	return r
}

// signal sends one to a broker, and waits until its process was started again and all partitions
// take writes.
func (r *replicated) signal(id int, signal syscall.Signal) {
	r.t.Helper()
	r.settled(r.t)
	r.takeGaps()
	sent := time.Now()
	if err := syscall.Kill(r.pids[id], signal); err != nil {
		r.t.Fatalf("signal %s to broker %d, pid %d: %v", signal, id, r.pids[id], err)
	}
	if signal == syscall.SIGSTOP {
		// It must have been given up by then: its own partitions take writes, from others.
		r.settled(r.t)
		if err := syscall.Kill(r.pids[id], syscall.SIGCONT); err != nil {
			r.t.Fatal(err)
		}
	}
	restarted(r.t, r.p, id, r.pids)
	r.settled(r.t)
	r.t.Logf("broker %d, %s: the longest gaps of the partitions were %v, all over after %v", id,
		signal, r.takeGaps(), time.Since(sent))
}

// end stops the producer, compares what it was promised with what the topic holds, and stops the
// cluster.
func (r *replicated) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.produced:
		if err != nil {
			r.t.Fatalf("%v\n%s", err, r.p.Stderr.String())
		}
	case <-time.After(2 * writesMissing):
		r.t.Fatalf("the producer does not end\n%s", r.p.Stderr.String())
	}
	read, err := traffic.ReadAll(process.WithDeadline(r.t), r.bootstrap, "orders")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.check(read); err != nil {
		r.t.Errorf("%v\n%s", err, r.p.Stderr.String())
	}
	r.t.Logf("%d records acknowledged, %d read", r.count, len(read))
	if code := r.p.Stop(r.t, syscall.SIGTERM); code != 0 {
		r.t.Errorf("exit code %d:\n%s", code, r.p.Stderr.String())
	}
	r.gone()
}

// gone checks that no broker outlives its cluster.
func (r *replicated) gone() {
	r.t.Helper()
	process.Eventually(r.t, func() string {
		for id, pid := range r.pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Sprintf("broker %d lives on: %v", id, err)
			}
		}
		return ""
	})
}

// TestKilledBrokersLoseNothing kills single brokers of three while a producer writes with acks=all
// and two replicas in sync at least. What was acknowledged is there at the end, once, and in order;
// every partition takes writes again. HEARTWOOD_CRASH_ROUNDS=n makes it n kills.
func TestKilledBrokersLoseNothing(t *testing.T) {
	t.Parallel()
	rounds := number(t, "HEARTWOOD_CRASH_ROUNDS", 3)
	r := startReplicated(t)
	first := rand.New(rand.NewPCG(seed.New(t), 1)).IntN(3)
	for round := range rounds {
		// another each time: who was killed last leads little
		r.signal((first+int(round))%3, syscall.SIGKILL)
	}
	r.end()
}

// TestStoppedBrokersHandOver: who is stopped in order hands over first.
func TestStoppedBrokersHandOver(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	for id := range 3 {
		r.signal(id, syscall.SIGTERM)
	}
	r.end()
}

// TestHungBrokersLoseNothing: one that hangs is given up after six seconds, and can acknowledge
// nothing when it goes on.
func TestHungBrokersLoseNothing(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.signal(0, syscall.SIGSTOP)
	r.end()
}

// TestBrokersEndWithTheirCluster: they stop when the process that keeps their metadata is killed,
// and all that was acknowledged is there at the next start.
func TestBrokersEndWithTheirCluster(t *testing.T) {
	t.Parallel()
	setup := process.NewSetup(t, 3, cluster, replicatedTopic)
	setup.HTTP = process.FreePorts(t, 4)
	r := &replicated{t: t, p: process.Start(t, append(setup.Args(), "--processes")...),
		pids: map[int]int{}}
	bootstrap, before := r.p.Ready(t)
	for _, line := range before {
		note(r.pids, line)
	}
	if len(r.pids) != 3 {
		t.Fatalf("processes %v", r.pids)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 100 {
		record := &kgo.Record{Topic: "orders", Key: fmt.Append(nil, i), Value: []byte("kept")}
		if err := client.ProduceSync(process.WithDeadline(t), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.p.Stop(t, syscall.SIGKILL)
	r.gone()
	p := process.Start(t, append(setup.Args(), "--processes")...)
	bootstrap, _ = p.Ready(t)
	read, err := traffic.ReadAll(process.WithDeadline(t), bootstrap, "orders")
	if err != nil || len(read) != 100 {
		t.Errorf("%d records at the next start, want 100: %v", len(read), err)
	}
	if code := p.Stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.Stderr.String())
	}
}

// settled waits until every partition has taken a write after it was called.
func (p *promises) settled(t *testing.T) {
	t.Helper()
	since := time.Now()
	process.Eventually(t, func() string {
		missing := p.silent(6, since)
		if missing != "" && time.Since(since) > writesMissing {
			t.Fatalf("after %s: %s", writesMissing, missing)
		}
		return missing
	})
}

// note remembers the process that a line tells of, if it does.
func note(pids map[int]int, line string) (id int, ok bool) {
	var pid int
	if !strings.HasPrefix(line, "broker ") {
		return 0, false
	}
	if n, _ := fmt.Sscanf(line, "broker %d started pid=%d", &id, &pid); n != 2 {
		return 0, false
	}
	pids[id] = pid
	return id, true
}

// restarted waits for the line of a broker's next process.
func restarted(t *testing.T, p *process.Process, id int, pids map[int]int) {
	t.Helper()
	expired := time.After(process.Deadline)
	for {
		select {
		case line, ok := <-p.Lines:
			if !ok {
				t.Fatalf("the cluster ended:\n%s", p.Stderr.String())
			}
			if started, ok := note(pids, line); ok && started == id {
				return
			}
		case <-expired:
			t.Fatalf("broker %d was not started again", id)
		}
	}
}
