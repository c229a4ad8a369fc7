//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// current is a value that can change between connections.
type current struct {
	mu    sync.Mutex
	value []byte
}

func (c *current) set(value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value = value
}

func (c *current) get() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

// load writes 500 records a second to topic loaded, with acks=all and idempotence.
type load struct {
	measured func(t *testing.T, format string, args ...any)

	book   *ledger.Ledger
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	failed []error // errors of connections
	lost   []error // errors of records that were given up
}

const loadPerSecond = 500

func (e *changingCluster) startLoad(t *testing.T, seeds []string, options ...kgo.Opt) *load {
	t.Helper()
	l := &load{measured: e.measured, book: e.book, done: make(chan struct{})}
	var err error
	l.client, err = kgo.NewClient(append(options, kgo.SeedBrokers(seeds...), kgo.WithHooks(l),
		kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	t.Cleanup(l.client.Close)
	t.Cleanup(l.cancel)
	e.loads++
	updates := traffic.Updates{Topic: "loaded", Keys: 1000, PerSecond: loadPerSecond,
		Rounds: e.loads * 1_000_000} // rounds, and thus values, that no other load uses
	go func() {
		defer close(l.done)
		traffic.Stream(ctx, l.client, l.book, updates)
	}()
	before := l.book.Count()
	until(t, "the load to begin", func(context.Context) string {
		if n := l.book.Count() - before; n < 5*loadPerSecond {
			return fmt.Sprintf("%d records are acknowledged", n)
		}
		return ""
	})
	return l
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (l *load) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failed = append(l.failed, err)
	}
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered.
func (l *load) OnProduceRecordUnbuffered(_ *kgo.Record, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = append(l.lost, err)
	}
}

func (l *load) failedConnections() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// stop ends the load after more further records were acknowledged, and waits for all of its
// records.
func (l *load) stop(t *testing.T) {
	t.Helper()
	before := l.book.Count()
	until(t, "further records", func(context.Context) string {
		if n := l.book.Count(); n < before+5*loadPerSecond {
			return fmt.Sprintf("%d further records are acknowledged", n-before)
		}
		return ""
	})
	l.cancel()
	<-l.done
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.client.Flush(ctx); err != nil {
		t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lost) > 0 {
		t.Errorf("%d records were not written, such as: %v", len(l.lost), l.lost[0])
	}
	l.measured(t, "%d records acknowledged; %d connections failed", l.book.Count(), len(l.failed))
}

// verify reads the topic. It must contain every acknowledged record exactly once.
func (l *load) verify(t *testing.T, seeds []string, options ...kgo.Opt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	read, err := traffic.ReadAll(ctx, seeds, "loaded", options...)
	if err == nil {
		err = l.book.CheckComplete(read)
	}
	if err != nil {
		t.Error(err)
	}
}

// throttled counts how often the brokers throttled a client.
type throttled struct {
	mu    sync.Mutex
	count int
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (h *throttled) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
}

func (h *throttled) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// throttles writes as fast as possible as two users to the same partition. First, the user with a
// quota of 256 KiB a second can use 10 s of its quota at once. After that, this user must write
// only as much as the quota allows. The other user must not be throttled.
func (e *changingCluster) throttles(t *testing.T) {
	const quota, used, measured = 256 << 10, 20 * time.Second, 40 * time.Second
	seeds := e.endpoints(t, "tls")
	rates, counts := map[string]float64{}, map[string]*throttled{}
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, user := range []string{"limited", "steady"} {
		secret, hook := e.userSecret(t, user), &throttled{}
		counts[user] = hook
		producer, err := kgo.NewClient(append(as(secret, func() []byte { return secret["ca.crt"] }),
			kgo.SeedBrokers(seeds...), kgo.WithHooks(hook), kgo.DefaultProduceTopic("metered"),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(32<<10),
			kgo.MaxProduceRequestsInflightPerBroker(1))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(producer.Close)
		if user == "limited" {
			awaitPreferredLeader(t, producer, "metered")
		}
		group.Go(func() {
			rate := writeFor(t, producer, used, measured)
			mu.Lock()
			defer mu.Unlock()
			rates[user] = rate
		})
	}
	group.Wait()
	e.measured(t, "limited: %.0f bytes/s, throttled %d times; steady: %.0f bytes/s, throttled %d "+
		"times", rates["limited"], counts["limited"].times(), rates["steady"],
		counts["steady"].times())
	if off := math.Abs(rates["limited"]/quota - 1); off > 0.2 {
		t.Errorf("the user with a quota of %d bytes/s has written %.0f bytes/s", quota,
			rates["limited"])
	}
	if counts["limited"].times() == 0 || counts["steady"].times() > 0 {
		t.Error("the wrong user is throttled")
	}
	if rates["steady"] < 1.2*quota {
		t.Errorf("the user without a quota has written only %.0f bytes/s", rates["steady"])
	}
}

// awaitPreferredLeader waits until the preferred leader leads partition 0. Leadership returns to it
// after restarts of the brokers, and a user's quota is separate on each broker.
func awaitPreferredLeader(t *testing.T, producer *kgo.Client, topic string) {
	until(t, "the preferred leader of "+topic, func(ctx context.Context) string {
		topics, err := kadm.NewClient(producer).ListTopics(ctx, topic)
		if err != nil {
			return err.Error()
		}
		partition, known := topics[topic].Partitions[0]
		if !known || len(partition.Replicas) == 0 || partition.Leader != partition.Replicas[0] {
			return fmt.Sprintf("partition 0 is %+v", partition)
		}
		return ""
	})
}

// writeFor writes records of 1 KiB with at most 64 in flight, first for the time used, and then for
// the time measured. It returns the bytes per second of values that were acknowledged in the time
// measured.
func writeFor(t *testing.T, producer *kgo.Client, used, measured time.Duration) float64 {
	begin, slots := time.Now(), make(chan struct{}, 64)
	var mu sync.Mutex
	bytes := 0
	for time.Since(begin) < used+measured {
		slots <- struct{}{}
		producer.Produce(t.Context(), &kgo.Record{Value: make([]byte, 1<<10)},
			func(r *kgo.Record, err error) {
				<-slots
				if err != nil {
					t.Error(err)
					return
				}
				if elapsed := time.Since(begin); elapsed >= used && elapsed < used+measured {
					mu.Lock()
					defer mu.Unlock()
					bytes += len(r.Value)
				}
			})
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return float64(bytes) / measured.Seconds()
}
