package broker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
)

// trio is a cluster of three brokers with TCP listeners and one metadata store. It has a topic
// "rep" with two partitions, three replicas and min.insync.replicas 2.
type trio struct {
	t        *testing.T
	metadata *local.Store
	disks    [3]*vfs.Mem
	// listen contains the addresses of the brokers. They remain the same after a restart, because
	// clients would otherwise have no valid address after all brokers have restarted.
	listen  []string
	brokers [3]*Broker
	stops   [3]func() error
	sent    atomic.Int64 // acknowledged records
}

// brokerStore is one broker's view of the metadata store. It supports controlled shutdown.
type brokerStore struct {
	*local.Store
	id int32
}

func (l brokerStore) AnnounceShutdown(ctx context.Context) error { return l.Store.Leave(ctx, l.id) }

// trioWait is the timeout of every wait. It is far longer than any successful wait takes.
const trioWait = await.Limit

func newTrio(t *testing.T, changes ...func(*v1alpha1.Topic)) *trio {
	c := &trio{t: t, listen: ports.Each(t, 3)}
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/meta"); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.metadata, err = local.Open(disk, "/meta/metadata.json"); err != nil {
		t.Fatal(err)
	}
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "rep"},
		Spec: v1alpha1.TopicSpec{Cluster: "test", Partitions: 2}}
	topic.Spec.Replicas, topic.Spec.MinInSyncReplicas = new(int32(3)), new(int32(2))
	for _, change := range changes {
		change(topic)
	}
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3, Groups: &v1alpha1.Groups{
			ConsumerHeartbeatInterval: &metav1.Duration{Duration: 100 * time.Millisecond},
		}}}
	if err := c.metadata.Sync(cluster, 3, []*v1alpha1.Topic{topic}); err != nil {
		t.Fatal(err)
	}
	for id := range c.disks {
		c.disks[id] = vfs.NewMem()
		c.start(id, true)
	}
	t.Cleanup(func() {
		for id := range c.stops {
			c.stop(id)
		}
	})
	return c
}

// start runs a broker. If graceful is set, the broker performs a controlled shutdown when it is
// stopped.
func (c *trio) start(id int, graceful bool) {
	c.t.Helper()
	if err := c.tryStart(id, graceful); err != nil {
		c.t.Fatal(err)
	}
}

// tryStart is like start, but returns an error if the broker does not start.
func (c *trio) tryStart(id int, graceful bool) error {
	c.t.Helper()
	opts := Options{
		NodeID: int32(id), DataDir: "/data", Listen: c.listen[id], FS: c.disks[id],
		Metadata: c.metadata,
		Logger:   slog.New(slog.NewTextHandler(c.t.Output(), nil)),
	}
	if graceful {
		opts.Metadata = brokerStore{c.metadata, int32(id)}
	}
	b, err := New(opts)
	if err != nil {
		return err
	}
	b.shutdown.timeout = trioWait
	c.brokers[id] = b
	ctx, cancel := context.WithCancel(context.Background())
	running := start(func() error { return b.Run(ctx) })
	c.stops[id] = sync.OnceValue(func() error {
		cancel()
		<-running.done
		return running.err
	})
	return nil
}

func (c *trio) stop(id int) {
	c.t.Helper()
	if err := c.stops[id](); err != nil {
		c.t.Errorf("stop broker %d: %v", id, err)
	}
}

// kill stops a broker and discards its unsynced writes, as a crash of the machine would. A broker
// that was started with graceful set still performs a controlled shutdown, but without effect on
// the disk.
func (c *trio) kill(id int) {
	c.t.Helper()
	left := c.disks[id].CrashClone()
	c.stop(id)
	c.disks[id] = left
}

// await waits until the metadata satisfies a condition.
func (c *trio) await(what string, holds func() bool) {
	c.t.Helper()
	await.For(c.t, func() string {
		if holds() {
			return ""
		}
		return what + ": " + c.describe()
	})
}

func (c *trio) describe() string {
	var text strings.Builder
	for _, p := range c.metadata.Image().Topic("rep").Partitions {
		fmt.Fprintf(&text, "partition %d: leader %d in epoch %d, in sync %v; ", p.Index, p.Leader,
			p.LeaderEpoch, p.ISR)
	}
	return text.String()
}

// more waits until n more records are acknowledged.
func (c *trio) more(n int64) {
	c.t.Helper()
	want := c.sent.Load() + n
	c.await("records to be acknowledged", func() bool { return c.sent.Load() >= want })
}

// inSync returns a function that reports whether every partition has a leader and an ISR of size n.
func (c *trio) inSync(n int) func() bool {
	return func() bool {
		for _, p := range c.metadata.Image().Topic("rep").Partitions {
			if p.Leader < 0 || len(p.ISR) != n {
				return false
			}
		}
		return true
	}
}

func (c *trio) seeds() kgo.Opt {
	var seeds []string
	for _, b := range c.brokers {
		seeds = append(seeds, b.Addr())
	}
	return kgo.SeedBrokers(seeds...)
}

// produce sends numbered records with acks=all and idempotence until ctx ends. It returns a
// function that waits for the end and returns the number of acknowledged records.
func (c *trio) produce(ctx context.Context) (acknowledged func() int) {
	c.t.Helper()
	client, err := kgo.NewClient(c.seeds(), kgo.DefaultProduceTopic("rep"),
		kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	done := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			sending, cancel := context.WithTimeout(context.Background(), trioWait)
			record := &kgo.Record{Partition: int32(n % 2), Value: fmt.Appendf(nil, "%d", n)}
			err := client.ProduceSync(sending, record).FirstErr()
			cancel()
			if err != nil {
				c.t.Errorf("produce record %d: %v", n, err)
				break
			}
			c.sent.Add(1)
		}
		done <- n
	}()
	return func() int { return <-done }
}

// consume reads n records. It fails unless they are the records 0 to n-1, in order within each
// partition.
func (c *trio) consume(n int) {
	c.t.Helper()
	client, err := kgo.NewClient(c.seeds(), kgo.ConsumeTopics("rep"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), trioWait)
	defer cancel()
	var got [2][]string
	for len(got[0])+len(got[1]) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("read %d of %d records", len(got[0])+len(got[1]), n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition],
				string(r.Value))
		})
	}
	for p := range got {
		for i, value := range got[p] {
			if want := fmt.Sprint(2*i + p); value != want {
				c.t.Fatalf("partition %d: record %d: got %s, want %s", p, i, value, want)
			}
		}
	}
}

// equal fails unless the logs of topic rep are equal on all three disks. The brokers must be
// stopped.
func (c *trio) equal() {
	c.t.Helper()
	for _, dir := range []string{"rep-0", "rep-1"} {
		var logs [3][]byte
		for id, disk := range c.disks {
			entries, err := disk.ReadDir("/data/" + dir)
			if err != nil {
				c.t.Fatal(err)
			}
			for _, entry := range entries {
				if filepath.Ext(entry.Name()) == ".log" {
					content, err := disk.ReadFile("/data/" + dir + "/" + entry.Name())
					if err != nil {
						c.t.Fatal(err)
					}
					logs[id] = append(logs[id], content...)
				}
			}
		}
		if len(logs[0]) == 0 || !bytes.Equal(logs[0], logs[1]) || !bytes.Equal(logs[0], logs[2]) {
			c.t.Errorf("%s: logs of %d, %d and %d bytes differ", dir, len(logs[0]), len(logs[1]),
				len(logs[2]))
		}
	}
}

// TestControlledShutdownsLoseNoAcknowledgedRecord stops each broker in turn with a controlled
// shutdown and starts it again, while records are produced. All acknowledged records must remain
// readable, and the logs of all replicas must be equal.
func TestControlledShutdownsLoseNoAcknowledgedRecord(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acknowledged := c.produce(ctx)
	for id := range c.brokers {
		c.more(20)
		c.stop(id)
		if slices.ContainsFunc(c.metadata.Image().Topic("rep").Partitions, isLedBy(int32(id))) {
			t.Errorf("stopped broker %d still leads: %s", id, c.describe())
		}
		if c.metadata.Image().DependsOn(int32(id)) {
			t.Errorf("a partition depends on stopped broker %d: %s", id, c.describe())
		}
		c.more(20)
		c.start(id, true)
		c.await("all replicas to be in sync again", c.inSync(3))
	}
	c.more(20)
	stop()
	n := acknowledged()
	c.consume(n)
	for id := range c.brokers {
		c.stop(id)
	}
	c.equal()
	t.Logf("%d records", n)
}

// TestCrashesLoseNoAcknowledgedRecord crashes one broker after the other while records are
// produced. Each crash loses the broker's unsynced writes. All acknowledged records must remain
// readable, and the logs of all replicas must be equal.
func TestCrashesLoseNoAcknowledgedRecord(t *testing.T) {
	c := newTrio(t)
	for id := range c.brokers {
		c.stop(id)
		c.start(id, false)
	}
	c.await("all replicas to be in sync", c.inSync(3))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acknowledged := c.produce(ctx)
	for round := range 4 {
		id := round % 3
		c.more(20)
		c.kill(id)
		c.await("other brokers to lead", func() bool {
			return !slices.ContainsFunc(c.metadata.Image().Topic("rep").Partitions,
				isLedBy(int32(id)))
		})
		c.start(id, false)
		c.await("all replicas to be in sync again", c.inSync(3))
	}
	c.more(20)
	stop()
	n := acknowledged()
	c.consume(n)
	for id := range c.brokers {
		c.stop(id)
	}
	c.equal()
	t.Logf("%d records", n)
}

func isLedBy(id int32) func(p *metadata.Partition) bool {
	return func(p *metadata.Partition) bool { return p.Leader == id }
}

// TestCleanShutdownOfAllAllowsASingleLeader stops all brokers and starts only broker 1. After a
// clean shutdown, its disk proves that it has all records, so it must be elected. After a crash
// there is no such proof, so it must not be elected.
func TestCleanShutdownOfAllAllowsASingleLeader(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			c := newTrio(t)
			c.await("all replicas to be in sync", c.inSync(3))
			if err := c.metadata.LeaveAll(); err != nil {
				t.Fatal(err)
			}
			for id := range c.brokers {
				if crash {
					c.kill(id)
				} else {
					c.stop(id)
				}
			}
			c.start(1, true)
			c.await("broker 1 to be registered",
				func() bool { _, up := c.metadata.Image().Broker(1); return up })
			// The registration of the broker has triggered the election.
			for _, p := range c.metadata.Image().Topic("rep").Partitions {
				if led := p.Leader == 1; led == crash {
					t.Errorf("crash %t: partition %d: got leader %d, ISR %v", crash, p.Index, p.Leader, p.ISR)
				}
			}
		})
	}
}
