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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
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

// stallMax is the longest time for which a partition can go without acknowledging a write.
const stallMax = 4 * time.Minute

// promises stores the acknowledged records and the times of their acknowledgements.
type promises struct {
	mu    sync.Mutex
	acked map[string][]int        // acknowledged numbers, by key
	last  map[int32]time.Time     // time of the last acknowledgement, by partition
	gaps  map[int32]time.Duration // longest time between two acknowledgements, by partition
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

// takeGaps returns each partition's longest time without an acknowledgement since the previous call
// of takeGaps.
func (p *promises) takeGaps() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps := slices.Sorted(maps.Values(p.gaps))
	clear(p.gaps)
	return gaps
}

// silent describes a partition that has acknowledged no record since the given time. It returns ""
// if there is no such partition.
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

// errInFlight means that a producer's records were neither acknowledged nor rejected in time.
var errInFlight = errors.New("records are still in flight four minutes after the last record was produced")

// produce writes ascending numbers for each key until ctx ends. Then it waits for the records in
// flight, for at most stallMax.
func (p *promises) produce(ctx context.Context, client *kgo.Client) error {
	const keys, inFlightMax = 60, 600
	slots := make(chan struct{}, inFlightMax)
	var refused error
	var once sync.Once
	for n := 0; ctx.Err() == nil; n++ {
		for key := range keys {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done(): // the test has ended, but all slots are still in use
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
		// Write at most 3,000 records a second, because other tests run in parallel.
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(drain(client), refused)
}

// drain waits for the records in flight. It uses a new context, because the context of the test may
// have ended.
func drain(client *kgo.Client) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), stallMax, errInFlight)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("wait for records in flight: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// check compares the acknowledged records with the records that were read from the topic. Each
// key's numbers must ascend, and every acknowledged number must be present.
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
				return fmt.Errorf("%s: %d was acknowledged and is lost; the topic has %d", key, n,
					len(held[key]))
			}
		}
	}
	return nil
}

// replicated is a cluster of three broker processes. Its producer writes with acks=all until the
// method end is called.
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
	setup.HTTP = ports.Free(t, 4) // one port for the cluster and one for each broker
	r := &replicated{
		t: t, p: process.Start(t, append(setup.Args(), "--processes")...), pids: map[int]int{},
		produced: make(chan error, 1),
		promises: &promises{acked: map[string][]int{}, last: map[int32]time.Time{},
			gaps: map[int32]time.Duration{}},
	}
	var before []string
	r.bootstrap, before = r.p.Ready(t)
	for _, line := range before {
		recordPID(r.pids, line)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond), kgo.RecordRetries(1<<30),
		// The client needs a short timeout, because a process that was stopped with SIGSTOP sends no
		// response.
		kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.RecordDeliveryTimeout(stallMax),
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

// signal sends a signal to a broker's process, and waits until the process has been restarted and
// all partitions accept writes.
func (r *replicated) signal(id int, signal syscall.Signal) {
	r.t.Helper()
	r.settled(r.t)
	r.takeGaps()
	sent := time.Now()
	if err := syscall.Kill(r.pids[id], signal); err != nil {
		r.t.Fatalf("signal %s to broker %d, pid %d: %v", signal, id, r.pids[id], err)
	}
	if signal == syscall.SIGSTOP {
		// Responses that the broker sent before the signal may still arrive. So acknowledgements alone do
		// not show that the broker's Lease has expired.
		r.awaitExpiry(id)
		r.settled(r.t)
		if err := syscall.Kill(r.pids[id], syscall.SIGCONT); err != nil {
			r.t.Fatal(err)
		}
	}
	restarted(r.t, r.p, id, r.pids)
	r.settled(r.t)
	r.t.Logf("broker %d, %s: longest gaps of the partitions %v, all ended after %v", id,
		signal, r.takeGaps(), time.Since(sent))
}

// awaitExpiry waits until the broker's Lease has expired, which means that the other brokers no
// longer list the broker.
func (r *replicated) awaitExpiry(id int) {
	r.t.Helper()
	others := slices.Delete(slices.Clone(r.bootstrap), id, id+1)
	await.For(r.t, func() string {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		client, err := kgo.NewClient(kgo.SeedBrokers(others...))
		if err != nil {
			return err.Error()
		}
		defer client.Close()
		// A new client knows only its seed brokers, so it does not send the request to the stopped
		// broker.
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		switch {
		case err != nil:
			return err.Error()
		case slices.Contains(brokers.NodeIDs(), int32(id)):
			return fmt.Sprintf("the Lease of broker %d has not expired", id)
		}
		return ""
	})
}

// end stops the producer, compares the acknowledged records with the topic, and stops the cluster.
func (r *replicated) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.produced:
		if err != nil {
			r.t.Fatalf("%v\n%s", err, r.p.Stderr.String())
		}
	case <-time.After(2 * stallMax):
		r.t.Fatalf("the producer did not end\n%s", r.p.Stderr.String())
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
	r.awaitExit()
}

// awaitExit waits until all broker processes have exited.
func (r *replicated) awaitExit() {
	r.t.Helper()
	await.For(r.t, func() string {
		for id, pid := range r.pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Sprintf("broker %d still runs: %v", id, err)
			}
		}
		return ""
	})
}

// TestKilledBrokersLoseNothing kills single brokers of three while a producer writes with acks=all
// and minInSyncReplicas 2. Every partition must accept writes again after each kill. At the end,
// every acknowledged record must be stored exactly once and in order. HEARTWOOD_CRASH_ROUNDS=n sets
// the number of kills.
func TestKilledBrokersLoseNothing(t *testing.T) {
	t.Parallel()
	rounds := number(t, "HEARTWOOD_CRASH_ROUNDS", 3)
	r := startReplicated(t)
	first := rand.New(rand.NewPCG(seed.New(t), 1)).IntN(3)
	for round := range rounds {
		// Each round kills a different broker, because a broker that was killed in the previous round
		// still leads few partitions.
		r.signal((first+int(round))%3, syscall.SIGKILL)
	}
	r.end()
}

// TestControlledShutdownLosesNothing stops each broker with SIGTERM. The broker must transfer its
// leadership before it exits, and no acknowledged record must be lost.
func TestControlledShutdownLosesNothing(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	for id := range 3 {
		r.signal(id, syscall.SIGTERM)
	}
	r.end()
}

// TestHungBrokersLoseNothing stops a broker process with SIGSTOP until its Lease has expired and
// other brokers lead its partitions. When the process continues, the broker must not acknowledge a
// record as a leader. So no acknowledged record must be lost.
func TestHungBrokersLoseNothing(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.signal(0, syscall.SIGSTOP)
	r.end()
}

// TestBrokersExitWithParent kills the parent process of three broker processes, which stores their
// metadata. The broker processes must exit, and all acknowledged records must be present after the
// next start.
func TestBrokersExitWithParent(t *testing.T) {
	t.Parallel()
	setup := process.NewSetup(t, 3, cluster, replicatedTopic)
	setup.HTTP = ports.Free(t, 4)
	r := &replicated{t: t, p: process.Start(t, append(setup.Args(), "--processes")...),
		pids: map[int]int{}}
	bootstrap, before := r.p.Ready(t)
	for _, line := range before {
		recordPID(r.pids, line)
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
	r.awaitExit()
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

// settled waits until every partition has acknowledged a record since the call.
func (p *promises) settled(t *testing.T) {
	t.Helper()
	since := time.Now()
	await.For(t, func() string { return p.silent(6, since) })
}

// recordPID stores the process id in pids if line reports the start of a broker process.
func recordPID(pids map[int]int, line string) (id int, ok bool) {
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

// restarted waits for the output line that reports a new process of the broker.
func restarted(t *testing.T, p *process.Process, id int, pids map[int]int) {
	t.Helper()
	expired := time.After(await.Limit)
	for {
		select {
		case line, ok := <-p.Lines:
			if !ok {
				t.Fatalf("the cluster ended:\n%s", p.Stderr.String())
			}
			if started, ok := recordPID(pids, line); ok && started == id {
				return
			}
		case <-expired:
			t.Fatalf("broker %d was not restarted", id)
		}
	}
}
