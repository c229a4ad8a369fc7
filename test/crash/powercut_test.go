package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/seed"
)

const (
	powerTopic = "orders"
	group      = "readers"
	// syncTime is how long a sync takes on the simulated disks, as on an SSD without a protected
	// write cache.
	syncTime = 5 * time.Millisecond
	// producePause is the time between two records. powerValue is the size of a record's value.
	producePause = 5 * time.Millisecond
	powerValue   = 1000
)

// cutCase is a topology and a setting. docs/use/durability.md contains what is lost in each of
// them.
type cutCase struct {
	brokers    int
	partitions int32
	durability v1alpha1.Durability // of the topic
	internal   v1alpha1.Durability // of all other topics, such as __consumer_offsets
	all        bool                // all brokers lose their power, and otherwise the leader
}

func (c cutCase) String() string {
	cut := "the leader"
	if c.all {
		cut = "all"
	}
	return fmt.Sprintf("%d brokers, %d partitions, topic %s, internal topics %s, power cut of %s",
		c.brokers, c.partitions, c.durability, c.internal, cut)
}

// keeps reports whether a power cut may lose nothing in topics of a durability.
func (c cutCase) keeps(d v1alpha1.Durability) bool {
	return d == v1alpha1.DurabilityFsync || !c.all
}

// TestPowerCuts cuts the power of real brokers. Their disks are simulated, and lose everything that
// was not synced. The test prints what was acknowledged with acks=all and is lost. Nothing may be
// lost with durability Fsync, or if only one of three brokers has lost its power. Otherwise the
// lost records are the last ones of each partition.
func TestPowerCuts(t *testing.T) {
	replicated, synced := v1alpha1.DurabilityReplicated, v1alpha1.DurabilityFsync
	for _, c := range []cutCase{
		{1, 1, replicated, replicated, true},
		{1, 1, synced, synced, true},
		{3, 1, replicated, replicated, false},
		{3, 1, replicated, replicated, true},
		{3, 100, replicated, replicated, true},
		{3, 1, synced, replicated, true},
		{3, 1, synced, synced, false},
		{3, 1, synced, synced, true},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(seed.New(t), 0))
			var all []losses
			for range number(t, "HEARTWOOD_CRASH_ROUNDS", 1) {
				lost := c.measure(t, chance)
				all = append(all, lost)
				if lost.count > 0 && c.keeps(c.durability) {
					t.Errorf("%d acknowledged records are lost", lost.count)
				}
				if lost.committed > 0 && c.keeps(c.internal) {
					t.Errorf("a committed offset went back by %d", lost.committed)
				}
			}
			report(t, all)
		})
	}
}

// losses are the acknowledged records that a power cut has removed, and its other effects.
type losses struct {
	count, bytes int
	since        time.Duration // from the acknowledgement of the first lost record to the cut
	committed    int64         // records by which the committed offsets of a partition went back
	leaderless   time.Duration // from the start of the brokers to the election of the last leader
	consumer     string        // error of a consumer that had read lost records, or ""
}

// report prints the median and the maximum over all power cuts.
func report(t *testing.T, all []losses) {
	slices.SortFunc(all, func(a, b losses) int { return cmp.Compare(a.since, b.since) })
	most := losses{}
	for _, l := range all {
		most.count, most.bytes = max(most.count, l.count), max(most.bytes, l.bytes)
		most.since, most.committed = max(most.since, l.since), max(most.committed, l.committed)
		most.leaderless = max(most.leaderless, l.leaderless)
		most.consumer = cmp.Or(l.consumer, most.consumer)
	}
	middle := all[len(all)/2]
	t.Logf("%d cuts; median: %d records, %d bytes, %s; at most: %d records, %d bytes, %s; committed "+
		"offsets went back by up to %d; leaders after up to %s; consumer: %q", len(all), middle.count,
		middle.bytes, middle.since.Round(time.Millisecond), most.count, most.bytes,
		most.since.Round(time.Millisecond), most.committed, most.leaderless.Round(time.Millisecond),
		most.consumer)
}

// measure runs a cluster, cuts the power at a random moment, starts the cluster again and compares.
func (c cutCase) measure(t *testing.T, chance *rand.Rand) losses {
	m := newMachines(t, c)
	m.start()
	book := &ackBook{}
	client := m.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	ctx, cancel := context.WithCancel(t.Context())
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		produceSteadily(ctx, client, book)
	}()
	reader := m.client(kgo.ConsumeTopics(powerTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	committed := m.consume(reader, time.Duration(chance.Int64N(int64(1500*time.Millisecond))))
	book.stop()
	m.cut()
	cancel()
	client.Close()
	<-produced
	began := time.Now()
	m.start()
	ends := m.ends()
	leaderless := time.Since(began)
	lost := m.compare(book, ends)
	lost.leaderless, lost.committed = leaderless, m.wentBack(committed)
	if lost.count > 0 {
		lost.consumer = outcomeOf(t, reader)
	}
	reader.Close()
	m.stop()
	return lost
}

// consume reads and commits 300 records, and continues for a while. It returns the offsets that
// were committed last.
func (m *machines) consume(reader *kgo.Client, further time.Duration) kadm.Offsets {
	m.t.Helper()
	admin := kadm.NewClient(reader)
	position := kadm.Offsets{}
	poll := func(ctx context.Context) int {
		fetches := reader.PollRecords(ctx, 1000)
		fetches.EachRecord(func(r *kgo.Record) {
			position.Add(kadm.Offset{Topic: r.Topic, Partition: r.Partition, At: r.Offset + 1,
				LeaderEpoch: -1})
		})
		if err := admin.CommitAllOffsets(m.t.Context(), group, position); err != nil {
			m.t.Fatal(err)
		}
		return fetches.NumRecords()
	}
	for read := 0; read < 300; {
		read += poll(m.t.Context())
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), further)
	defer cancel()
	for ctx.Err() == nil {
		poll(ctx)
	}
	return position
}

// wentBack returns by how much the committed offset of a partition is at most lower than before.
func (m *machines) wentBack(committed kadm.Offsets) (most int64) {
	m.t.Helper()
	client := m.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	var now kadm.OffsetResponses
	await.Until(m.t, "the committed offsets", func() bool {
		var err error
		now, err = admin.FetchOffsets(m.t.Context(), group)
		return err == nil && now.Error() == nil
	})
	committed.Each(func(before kadm.Offset) {
		after, _ := now.Lookup(before.Topic, before.Partition)
		most = max(most, before.At-max(after.At, 0))
	})
	return most
}

// outcomeOf returns what a consumer receives from the brokers after the cut.
func outcomeOf(t *testing.T, reader *kgo.Client) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		for _, failure := range fetches.Errors() {
			var loss *kgo.ErrDataLoss
			if errors.As(failure.Err, &loss) {
				return failure.Err.Error()
			}
		}
	}
	return "no error"
}

// ack is an acknowledgement that a producer has received.
type ack struct {
	partition int32
	offset    int64
	value     string
	moment    time.Time
}

// ackBook contains the acknowledgements before the power cut.
type ackBook struct {
	mu   sync.Mutex
	acks []ack
	cut  time.Time // zero: not yet
}

func (b *ackBook) acknowledged(r *kgo.Record, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.cut.IsZero() {
		b.acks = append(b.acks, ack{r.Partition, r.Offset, string(r.Value[:16]), time.Now()})
	}
}

// stop ignores all later acknowledgements: the power may be cut at any moment from now on.
func (b *ackBook) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = time.Now()
}

// produceSteadily produces a record every producePause until ctx ends.
func produceSteadily(ctx context.Context, client *kgo.Client, book *ackBook) {
	ticker := time.NewTicker(producePause)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		value := append(fmt.Appendf(nil, "%016d", i), make([]byte, powerValue-16)...)
		client.Produce(ctx, &kgo.Record{Topic: powerTopic, Key: []byte(strconv.Itoa(i % 50)),
			Value: value}, book.acknowledged)
	}
}

// machines are brokers with simulated disks, and the metadata store of `heartwood dev` on another
// disk.
type machines struct {
	cutCase
	t        *testing.T
	metadata *vfs.Mem
	disks    []*vfs.Mem
	listen   []string
	store    *local.Store
	stops    []func() // by broker; nil: it does not run
}

func newMachines(t *testing.T, c cutCase) *machines {
	m := &machines{cutCase: c, t: t, metadata: vfs.NewMem(), listen: ports.Each(t, c.brokers)}
	m.stops = make([]func(), c.brokers)
	for range c.brokers {
		m.disks = append(m.disks, vfs.NewMem())
	}
	t.Cleanup(m.stop)
	return m
}

func (m *machines) topic() *v1alpha1.Topic {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: powerTopic},
		Spec: v1alpha1.TopicSpec{Cluster: "crash", Partitions: m.partitions}}
	replicas := int32(m.brokers)
	insync := min(replicas, 2)
	topic.Spec.Replicas, topic.Spec.MinInSyncReplicas = &replicas, &insync
	topic.Spec.Durability = m.durability
	return topic
}

// start starts the brokers that do not run, and the metadata store.
func (m *machines) start() {
	m.t.Helper()
	if m.store == nil {
		m.openStore()
	}
	for id, stop := range m.stops {
		if stop == nil {
			m.startBroker(id)
		}
	}
}

func (m *machines) openStore() {
	m.t.Helper()
	var err error
	if m.store, err = local.Open(m.metadata, "/metadata.json"); err != nil {
		m.t.Fatal(err)
	}
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "crash"},
		Spec: v1alpha1.LogClusterSpec{Brokers: int32(m.brokers)}}
	cluster.Spec.TopicDefaults = &v1alpha1.TopicDefaults{
		TopicSettings: v1alpha1.TopicSettings{Durability: m.internal}}
	if err := m.store.Sync(cluster, m.brokers, []*v1alpha1.Topic{m.topic()}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machines) startBroker(id int) {
	m.t.Helper()
	b, err := broker.New(broker.Options{NodeID: int32(id), DataDir: "/data", Listen: m.listen[id],
		FS: slowDisk{m.disks[id]}, Metadata: m.store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	m.stops[id] = func() {
		cancel()
		if err := <-ended; err != nil {
			m.t.Errorf("broker %d: %v", id, err)
		}
	}
}

// stop stops all brokers and the metadata store.
func (m *machines) stop() {
	for id, stop := range m.stops {
		if stop != nil {
			stop()
		}
		m.stops[id] = nil
	}
	if m.store != nil {
		m.store.Close()
	}
	m.store = nil
}

// cut cuts the power of all brokers, or of the leader. It takes the disks as they are at this
// moment, and then ends the processes. Their later changes are not on these disks.
func (m *machines) cut() {
	if !m.all {
		leader := m.store.Image().Topic(powerTopic).Partitions[0].Leader
		disk := m.disks[leader].CrashClone()
		m.stops[leader]()
		m.stops[leader], m.disks[leader] = nil, disk
		return
	}
	var after []*vfs.Mem
	for _, disk := range m.disks {
		after = append(after, disk.CrashClone())
	}
	metadata := m.metadata.CrashClone()
	m.stop()
	m.disks, m.metadata = after, metadata
}

func (m *machines) client(opts ...kgo.Opt) *kgo.Client {
	m.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(m.listen...),
		kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(client.Close)
	return client
}

// compare returns the acknowledged records that are lost. It fails unless they are the last ones of
// their partitions.
func (m *machines) compare(book *ackBook, ends kadm.ListedOffsets) (lost losses) {
	m.t.Helper()
	found := m.readAll(ends)
	firstLost := map[int32]int64{}
	for _, a := range book.acks {
		if found[a.partition][a.offset] == a.value {
			continue
		}
		lost.count++
		lost.bytes += powerValue
		lost.since = max(lost.since, book.cut.Sub(a.moment))
		if first, ok := firstLost[a.partition]; !ok || a.offset < first {
			firstLost[a.partition] = a.offset
		}
	}
	for _, a := range book.acks {
		if first, ok := firstLost[a.partition]; ok && a.offset > first &&
			found[a.partition][a.offset] == a.value {
			m.t.Errorf("partition %d: offset %d is lost, and offset %d is not", a.partition, first, a.offset)
		}
	}
	return lost
}

// readAll returns all records by partition and offset.
func (m *machines) readAll(ends kadm.ListedOffsets) map[int32]map[int64]string {
	m.t.Helper()
	client := m.client(kgo.ConsumeTopics(powerTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	found := map[int32]map[int64]string{}
	left := func() (count int64) {
		ends.Each(func(end kadm.ListedOffset) {
			count += end.Offset - int64(len(found[end.Partition]))
		})
		return count
	}
	await.Until(m.t, "all records to be read", func() bool {
		if left() == 0 {
			return true
		}
		client.PollRecords(m.t.Context(), 10_000).EachRecord(func(r *kgo.Record) {
			if found[r.Partition] == nil {
				found[r.Partition] = map[int64]string{}
			}
			found[r.Partition][r.Offset] = string(r.Value[:16])
		})
		return left() == 0
	})
	return found
}

// ends waits until each partition has a leader, and returns the log ends.
func (m *machines) ends() (ends kadm.ListedOffsets) {
	m.t.Helper()
	client := m.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	await.Until(m.t, "each partition to have a leader", func() bool {
		var err error
		ends, err = admin.ListEndOffsets(m.t.Context(), powerTopic)
		return err == nil && ends.Error() == nil && len(ends[powerTopic]) == int(m.partitions)
	})
	return ends
}

// slowDisk is a disk whose syncs take syncTime.
type slowDisk struct{ *vfs.Mem }

func (d slowDisk) Create(name string) (vfs.File, error) { return slow(d.Mem.Create(name)) }

func (d slowDisk) OpenReadWrite(name string) (vfs.File, error) {
	return slow(d.Mem.OpenReadWrite(name))
}

func (d slowDisk) SyncDir(name string) error {
	<-time.After(syncTime)
	return d.Mem.SyncDir(name)
}

type slowFile struct{ vfs.File }

func slow(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return slowFile{file}, nil
}

func (f slowFile) Sync() error {
	<-time.After(syncTime)
	return f.File.Sync()
}
