package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

// cluster is one broker with a TCP listener and a real disk. It has a topic "tickets".
type cluster struct {
	t        *testing.T
	dir      string
	fsys     vfs.FS
	metadata *local.Store

	*Broker
	registry *prometheus.Registry
	stop     func() error
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), fsys: vfs.OS{}}
	c.open()
	return c
}

// open opens or creates the metadata store, and adds the topic tickets.
func (c *cluster) open() {
	c.t.Helper()
	var err error
	if c.metadata, err = local.Open(c.fsys, filepath.Join(c.dir, "metadata.json")); err != nil {
		c.t.Fatal(err)
	}
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "tickets"},
		Spec: v1alpha1.TopicSpec{Cluster: "test", Partitions: 2}}
	if err := c.metadata.Sync(nil, 1, []*v1alpha1.Topic{topic}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) options() Options {
	return Options{
		DataDir: filepath.Join(c.dir, "broker-0"), Listen: "127.0.0.1:0", Metadata: c.metadata,
		FS:     c.fsys,
		Logger: slog.New(slog.NewTextHandler(c.t.Output(), nil)),
	}
}

// start runs the broker and waits until it serves. If the broker still runs when the test ends, the
// cleanup stops it.
func (c *cluster) start() {
	c.t.Helper()
	c.registry = prometheus.NewPedanticRegistry()
	opts := c.options()
	opts.Registry = c.registry
	b, err := New(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Broker = b
	ctx, cancel := context.WithCancel(context.Background())
	running := start(func() error { return b.Run(ctx) })
	stopped := false
	c.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		<-running.done
		return running.err
	}
	c.t.Cleanup(func() {
		if err := c.stop(); err != nil {
			c.t.Errorf("stop: %v", err)
		}
	})
	if err := c.metadata.AwaitServing(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Addr()),
		kgo.DefaultProduceTopic("tickets"), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// produce sends records with franz-go's default settings: acks=all and idempotence.
func (c *cluster) produce(client *kgo.Client, prefix string, count int) {
	c.t.Helper()
	var records []*kgo.Record
	for i := range count {
		records = append(records,
			&kgo.Record{Key: fmt.Appendf(nil, "key-%d", i),
				Value: fmt.Appendf(nil, "%s-%d", prefix, i)})
	}
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// consume reads from the beginning until it has read count distinct values, and returns them.
func (c *cluster) consume(count int) map[string]bool {
	c.t.Helper()
	client := c.client(kgo.ConsumeTopics("tickets"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	values := map[string]bool{}
	for len(values) < count {
		fetches := client.PollFetches(c.t.Context())
		if err := fetches.Err(); err != nil {
			c.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values[string(r.Value)] = true })
	}
	return values
}

// TestRestartLosesNothing checks that records produced with acks=all and idempotence can be read
// before and after a restart.
func TestRestartLosesNothing(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.produce(c.client(), "first", 1000)
	c.consume(1000)
	if err := c.stop(); err != nil {
		t.Fatalf("Run returned %v", err)
	}
	c.start()
	c.consume(1000)
	c.produce(c.client(), "second", 1000)
	values := c.consume(2000)
	for i := range 1000 {
		if !values[fmt.Sprintf("first-%d", i)] || !values[fmt.Sprintf("second-%d", i)] {
			t.Fatalf("record %d is missing", i)
		}
	}
}

// TestLongPollEndsWithRecordsAndAtShutdown checks that a fetch with a maximum wait of an hour
// returns when a record is appended, and that another one returns when the broker shuts down.
func TestLongPollEndsWithRecordsAndAtShutdown(t *testing.T) {
	c := newCluster(t)
	c.start()
	consumer := c.client(kgo.ConsumeTopics("tickets"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Hour))
	polled := make(chan int)
	go func() { polled <- len(consumer.PollFetches(t.Context()).Records()) }()
	awaitPending(t, c, 1)
	producer := c.client()
	c.produce(producer, "x", 1)
	if count := <-polled; count != 1 {
		t.Errorf("polled %d records, want 1", count)
	}
	awaitPending(t, c, 1) // the client sends the next fetch at once
	if err := c.stop(); err != nil {
		t.Errorf("stop with a waiting request: got error %v", err)
	}
}

// TestLostMetadataDeletesNoData checks that no records are deleted if the metadata file, which
// contains all topics, is lost. A topic that is created again must have its old records, although
// its reclaim policy is Delete.
func TestLostMetadataDeletesNoData(t *testing.T) {
	c := newCluster(t)
	c.start()
	admin := kadm.NewClient(c.client())
	// CreateTopic sets reclaim policy Delete.
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "made-by-a-client"); err != nil {
		t.Fatal(err)
	}
	producer := func() *kgo.Client {
		return c.client(kgo.DefaultProduceTopic("made-by-a-client"), kgo.UnknownTopicRetries(-1))
	}
	c.produce(producer(), "old", 10)
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(c.dir, "metadata.json")); err != nil {
		t.Fatal(err)
	}
	c.open()
	c.start()
	if _, err := kadm.NewClient(c.client()).CreateTopic(t.Context(), 1, 1, nil,
		"made-by-a-client"); err != nil {
		t.Fatal(err)
	}
	c.produce(producer(), "new", 1)
	if rows := c.Report(); rows[0].Topic != "made-by-a-client" || rows[0].LogEndOffset != 11 {
		t.Errorf("got rows %+v, want 10 old records and a new one", rows)
	}
}

// awaitPending waits until the purgatory contains count fetches.
func awaitPending(t *testing.T, c *cluster, count float64) {
	t.Helper()
	await.Until(t, "fetches wait in the purgatory", func() bool {
		return gauge(t, c.registry, "heartwood_purgatory_pending", "operation", "fetch") >= count
	})
}

// gauge returns the sum of a metric over all series whose label has the given value.
func gauge(t *testing.T, registry *prometheus.Registry, name, label, value string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if family.GetName() == name && pair.GetName() == label && pair.GetValue() == value {
					sum += metric.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

func TestReportAgreesWithMetrics(t *testing.T) {
	c := newCluster(t)
	c.start()
	if err := c.Ready(); err != nil {
		t.Errorf("while the broker serves: Ready returned %v", err)
	}
	c.produce(c.client(), "x", 10)
	rows := c.Report()
	if len(rows) != 2 || rows[0].Partition != 0 || rows[1].Partition != 1 {
		t.Fatalf("got rows %+v, want two partitions", rows)
	}
	records := rows[0].LogEndOffset + rows[1].LogEndOffset
	if records != 10 || rows[0].Topic != "tickets" || !rows[0].Leader || rows[0].Segments != 1 {
		t.Errorf("got rows %+v, want 10 records in topic tickets", rows)
	}
	for name, want := range map[string]float64{
		"heartwood_partition_leader": 2, "heartwood_partition_offline": 0,
		"heartwood_partition_under_replicated": 0,
		"heartwood_partition_under_min_isr":    0,
		"heartwood_log_end_offset":             float64(records),
	} {
		if got := gauge(t, c.registry, name, "topic", "tickets"); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if c.Ready() == nil {
		t.Error("after the stop: Ready returned nil")
	}
}

// TestFullDisk checks that a produce request fails with a storage error while the disk is full, and
// that the process keeps running. Once the disk has space again, the partition accepts records, and
// all acknowledged records can be read.
func TestFullDisk(t *testing.T) {
	c := newCluster(t)
	disk := vfs.NewFault(vfs.OS{})
	c.fsys = disk
	c.start()
	c.produce(c.client(), "before", 100)
	disk.Inject(vfs.Rule{Op: vfs.OpWrite, Name: "*.log", Err: syscall.ENOSPC, WriteBytes: 10,
		Times: 1})
	client := c.once()
	if err := produceOnce(t, client, "lost"); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("produce on a full disk: got error %v, want KAFKA_STORAGE_ERROR", err)
	}
	if err := produceOnce(t, client, "after"); err != nil {
		t.Errorf("produce when the disk has space: got error %v", err)
	}
	if values := c.consume(101); values["lost"] || !values["after"] {
		t.Error("the records read differ from those acknowledged")
	}
}

// TestFailedSyncTakesThePartitionOffline checks that a failed sync, after which the content of the
// disk is unknown, takes the partition offline. The report must contain the fault, the records can
// still be read, and the other partition and the process are not affected.
func TestFailedSyncTakesThePartitionOffline(t *testing.T) {
	c := newCluster(t)
	disk := vfs.NewFault(vfs.OS{})
	c.fsys = disk
	c.start()
	client := c.once() // produces only to partition 0, whose log has the failing sync
	c.produce(client, "before", 100)
	disk.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.log", Err: syscall.EIO, Times: 1})
	acknowledged := 0
	for ; ; acknowledged++ { // the next background flush syncs the log
		err := produceOnce(t, client, fmt.Sprint(acknowledged))
		if errors.Is(err, kerr.KafkaStorageError) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.consume(100 + acknowledged)
	if offline := gauge(t, c.registry, "heartwood_partition_offline", "topic",
		"tickets"); offline != 1 {
		t.Errorf("partition_offline: got %v, want 1", offline)
	}
	faults := 0
	for _, row := range c.Report() {
		if strings.Contains(row.Fault, syscall.EIO.Error()) {
			faults++
		}
	}
	if faults != 1 {
		t.Errorf("got %d partitions with a fault, want 1", faults)
	}
	if err := c.stop(); err == nil {
		t.Error("the shutdown was clean with a failed log")
	}
	c.fsys = vfs.OS{}
	c.start()
	c.consume(100 + acknowledged)
}

// once returns a client that produces without retries to one partition (by default partition 0).
func (c *cluster) once() *kgo.Client {
	return c.client(kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func produceOnce(t *testing.T, client *kgo.Client, value string) error {
	return client.ProduceSync(t.Context(), &kgo.Record{Value: []byte(value)}).FirstErr()
}

func TestNewReleasesWhatItOpenedBeforeAFailure(t *testing.T) {
	c := newCluster(t)
	c.start()
	second := c.options()
	if _, err := New(second); !errors.Is(err, vfs.ErrLocked) ||
		!strings.Contains(err.Error(), second.DataDir) {
		t.Errorf("second broker on the same directory: got error %v, want ErrLocked", err)
	}
	second.DataDir = filepath.Join(c.dir, "other")
	for name, change := range map[string]func(*Options){
		"port in use":         func(o *Options) { o.Listen = c.Addr() },
		"bad address":         func(o *Options) { o.Listen = "nonsense" },
		"bad advertise":       func(o *Options) { o.Advertise = "no-port" },
		"advertise port 0":    func(o *Options) { o.Advertise = "host:0" },
		"unspecified address": func(o *Options) { o.Listen = "0.0.0.0:0" },
		"negative node id":    func(o *Options) { o.NodeID = -1 },
		"large node id":       func(o *Options) { o.NodeID = 1 << 20 },
	} {
		opts := second
		change(&opts)
		if b, err := New(opts); err == nil {
			t.Errorf("%s: New returned no error", name)
			_ = b.Close()
		}
	}
	b, err := New(second) // succeeds if the failed calls of New have unlocked the directory
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// failedMetadata is a metadata store whose Run fails.
type failedMetadata struct{ Metadata }

var errFailedMetadata = errors.New("metadata store failed")

func (failedMetadata) Run(context.Context, metadata.Broker, func(*metadata.Image)) error {
	return errFailedMetadata
}

func TestRunFailsWithItsMetadataStore(t *testing.T) {
	c := newCluster(t)
	opts := c.options()
	opts.Metadata = failedMetadata{}
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(); err == nil {
		t.Error("Ready returned nil before the first image")
	}
	if err := b.Run(t.Context()); !errors.Is(err, errFailedMetadata) {
		t.Errorf("Run: got error %v, want errFailedMetadata", err)
	}
	c.start() // succeeds if Run has unlocked the directory
}
