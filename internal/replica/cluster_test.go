package replica

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/output"
)

// nodes is a small cluster in a synctest bubble. It consists of several connected Sets, each on a
// real store with a disk in memory, and of their metadata.
type nodes struct {
	t     *testing.T
	ids   []int32
	nodes map[int32]*node
	meta  *metadataStore
	flush time.Duration // interval between background syncs of the logs
	// refuse determines what happens to connection attempts while a broker is down: if set, its
	// machine refuses them; otherwise nothing answers them.
	refuse atomic.Bool
	logs   output.Buffer // logs of all brokers
	// recordedLosses is Options.RecordedLosses of the brokers that start next.
	recordedLosses *metadata.Losses
}

// node is one broker in nodes.
type node struct {
	*Set
	id    int32
	disk  *vfs.Mem
	store *logstore.Store
	epoch int64
	down  bool
	// through is the filesystem through which the broker uses its disk; nil if it uses the disk
	// directly.
	through vfs.FS
	dials   atomic.Int32 // number of connections that the broker has made
	// named is the total number of partitions in the broker's fetch requests so far.
	named atomic.Int64
	// live is the Set to which other brokers connect; nil if the broker is down.
	live atomic.Pointer[Set]
	// disconnected is true if the broker is disconnected from all other brokers.
	disconnected atomic.Bool
	// slow contains one token for each fetch that the broker may send; nil if fetches are not limited.
	slow atomic.Pointer[chan struct{}]
}

// metadataStore contains the cluster's metadata, with one topic, and updates them by
// compare-and-swap.
type metadataStore struct {
	mu     sync.Mutex
	topic  *metadata.Topic
	epochs map[int32]int64
	racks  map[int32]string
	// lose is the number of upcoming answers that are lost after their update has been recorded.
	lose    int
	refuse  error                // error that changeISR returns; nil if it succeeds
	updates []metadata.ISRChange // the updates that succeeded
}

// newNodes starts brokers 1 to count, and a partition that has replicas on all of them and that
// broker 1 leads.
func newNodes(t *testing.T, count int, change func(*metadata.Topic)) *nodes {
	return newNodesFlushing(t, count, 24*time.Hour, change)
}

// newNodesFlushing is like newNodes, but also syncs the logs at the given interval. The cleaner
// needs such syncs.
func newNodesFlushing(t *testing.T, count int, flush time.Duration,
	change func(*metadata.Topic)) *nodes {
	n := &nodes{t: t, flush: flush, nodes: map[int32]*node{},
		meta: &metadataStore{epochs: map[int32]int64{}, racks: map[int32]string{}}}
	for i := range count {
		n.ids = append(n.ids, int32(i+1))
	}
	topic := &metadata.Topic{Name: "a", ID: metadata.NewID(), Settings: topicconfig.Default()}
	topic.Partitions = []*metadata.Partition{{Replicas: slices.Clone(n.ids), Leader: 1,
		LeaderEpoch: 1, ISR: slices.Clone(n.ids)}}
	if change != nil {
		change(topic)
	}
	n.meta.topic = topic
	for _, id := range n.ids {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		n.nodes[id] = &node{id: id, disk: disk}
		n.start(id)
	}
	t.Cleanup(n.stop)
	n.apply()
	return n
}

// start starts a broker in a new broker epoch. The broker receives its first image from the next
// apply.
func (n *nodes) start(id int32) {
	n.t.Helper()
	b := n.nodes[id]
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(n.t.Output(), &n.logs),
		nil)).With("broker", id)
	store, err := logstore.Open(logstore.Options{FS: cmp.Or[vfs.FS](b.through, b.disk),
		Dir: "/data", Logger: logger, FlushInterval: n.flush})
	if err != nil {
		n.t.Fatal(err)
	}
	b.epoch++
	b.store, b.down = store, false
	n.meta.mu.Lock()
	n.meta.epochs[id] = b.epoch
	n.meta.mu.Unlock()
	b.Set = NewSet(Options{
		NodeID: id, Store: store, Cluster: "ours", Logger: logger,
		RecordedLosses: n.recordedLosses,
		ChangeISR:      metadata.ChangeISREach(64, n.meta.changeISR),
		Dial: func(_ context.Context, to metadata.Broker) (Peer,
			error) {
			return n.dial(b, to)
		},
	})
	b.live.Store(b.Set)
}

// crash ends a broker without a controlled shutdown. If lose is set, the broker's disk loses all
// data that were not synced.
func (n *nodes) crash(id int32, lose bool) {
	n.t.Helper()
	b := n.nodes[id]
	image := b.disk
	if lose {
		image = b.disk.CrashClone()
	}
	b.live.Store(nil)
	b.Set.Close()
	b.down = true
	n.closeStore(b)
	if lose {
		b.disk = image
	}
	n.meta.mu.Lock()
	delete(n.meta.epochs, id)
	n.meta.mu.Unlock()
}

func (n *nodes) stop() {
	for _, b := range n.nodes {
		if !b.down {
			b.Set.Close()
		}
	}
	for _, b := range n.nodes {
		if !b.down {
			n.closeStore(b)
		}
	}
}

// closeStore closes the store of a broker. Logs that have stopped are not closed cleanly.
func (n *nodes) closeStore(b *node) {
	n.t.Helper()
	stopped := slices.ContainsFunc(b.store.Logs(),
		func(log *logstore.Log) bool { return log.Fault() != nil })
	if err := b.store.Close(); err != nil && !stopped {
		n.t.Error(err)
	}
}

// changeISR implements metadata.Store. It compares and swaps, as the real stores do.
func (m *metadataStore) changeISR(_ context.Context,
	change metadata.ISRChange) (partitionEpoch int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.topic.Partitions[change.Partition]
	if m.refuse != nil {
		return 0, m.refuse
	}
	from, isr := slices.Sorted(slices.Values(change.From)), slices.Sorted(slices.Values(p.ISR))
	if p.LeaderEpoch != change.LeaderEpoch || !slices.Equal(from, isr) {
		return 0, fmt.Errorf("%w: %v in epoch %d", metadata.ErrISRConflict, p.ISR, p.LeaderEpoch)
	}
	var to []int32
	for _, member := range change.To {
		if epoch, up := m.epochs[member.Broker]; !up || epoch != member.Epoch ||
			member.ReplicaIncarnation != p.ReplicaIncarnation(member.Broker) {
			return 0, fmt.Errorf("%w: broker %d", metadata.ErrISRConflict, member.Broker)
		}
		to = append(to, member.Broker)
	}
	changed := *p
	changed.ISR = to
	changed.PartitionEpoch++
	m.topic.Partitions[change.Partition] = &changed
	m.updates = append(m.updates, change)
	if m.lose > 0 {
		m.lose--
		return 0, errors.New("connection lost")
	}
	return changed.PartitionEpoch, nil
}

// image returns an image of the current metadata.
func (m *metadataStore) image() *metadata.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	var brokers []metadata.Broker
	for id, epoch := range m.epochs {
		brokers = append(brokers,
			metadata.Broker{ID: id, Epoch: epoch, Rack: m.racks[id], CleanEpoch: -1})
	}
	topic := *m.topic
	topic.Partitions = slices.Clone(m.topic.Partitions)
	return metadata.NewImage("ours", metadata.CleanerBudget{}, brokers, []*metadata.Topic{&topic})
}

// apply applies the current image on the given brokers. Without arguments, it applies the image on
// all brokers that are up.
func (n *nodes) apply(to ...int32) {
	n.t.Helper()
	if len(to) == 0 {
		to = n.ids
	}
	for _, id := range to {
		if b := n.nodes[id]; !b.down {
			if _, err := b.Apply(n.meta.image()); err != nil {
				n.t.Error(err)
			}
		}
	}
}

// change calls a function that changes partition 0 in the metadata.
func (n *nodes) change(change func(p *metadata.Partition)) {
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	p := *n.meta.topic.Partitions[0]
	change(&p)
	n.meta.topic.Partitions[0] = &p
}

// elect elects a leader in a new leader epoch, and sets the ISR.
func (n *nodes) elect(leader int32, isr ...int32) {
	n.t.Helper()
	n.change(func(p *metadata.Partition) {
		p.Leader, p.LeaderEpoch, p.ISR = leader, p.LeaderEpoch+1,
			isr
	})
	n.apply()
}

var partitionA = id("a", 0)

func (n *nodes) log(id int32) *logstore.Log { return n.nodes[id].store.Log(partitionA) }

// produce produces one batch with acks=all to a broker.
func (n *nodes) produce(to int32, values ...string) ProduceResult {
	n.t.Helper()
	batches := []ProducePartition{{ID: partitionA, Batch: batch(n.t, values...)}}
	return n.nodes[to].Append(AcksAll, batches).Wait(n.t.Context(), time.Minute)[0]
}

func (n *nodes) mustProduce(to int32, values ...string) {
	n.t.Helper()
	if r := n.produce(to, values...); r.Err != nil {
		n.t.Fatalf("produce %v: %v", values, r.Err)
	}
}

// settle waits for d, and until every goroutine is blocked.
func (n *nodes) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// content returns the batches of a log.
func (n *nodes) content(id int32) []byte {
	n.t.Helper()
	log := n.log(id)
	var all []byte
	for offset := log.LogStart(); offset < log.LogEnd(); {
		slice, err := log.ReadReplica(offset, 1<<20, true)
		if err != nil {
			n.t.Fatal(err)
		}
		if slice.Length == 0 {
			break
		}
		buf := make([]byte, slice.Length)
		if _, err := slice.File.ReadAt(buf, slice.Position); err != nil {
			n.t.Fatal(err)
		}
		slice.Release()
		all = append(all, buf...)
		offset = lastOffset(n.t, buf) + 1
	}
	return all
}

// equal fails the test unless the brokers' logs contain the same bytes and end at the same offset.
func (n *nodes) equal(brokers ...int32) {
	n.t.Helper()
	first := n.content(brokers[0])
	for _, id := range brokers[1:] {
		if other := n.content(id); !bytes.Equal(first, other) ||
			n.log(brokers[0]).LogEnd() != n.log(id).LogEnd() {
			n.t.Errorf("logs differ: broker %d has %d bytes and log end %d, broker %d has %d bytes and log end %d",
				brokers[0], len(first), n.log(brokers[0]).LogEnd(), id, len(other), n.log(id).LogEnd())
		}
	}
}

// isr returns the recorded ISR.
func (n *nodes) isr() []int32 {
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	return slices.Sorted(slices.Values(n.meta.topic.Partitions[0].ISR))
}

// wantISR fails the test unless the recorded ISR is as expected.
func (n *nodes) wantISR(want ...int32) {
	n.t.Helper()
	if got := n.isr(); !slices.Equal(got, want) {
		n.t.Errorf("got ISR %v, want %v", got, want)
	}
}

// link is a Peer that directly calls the other broker's Set.
type link struct {
	from *node
	to   *node
	set  *Set // Set of the other broker's process at the time of the dial

	interrupts chan struct{} // capacity 1
}

var errLink = errors.New("no route")

func (n *nodes) dial(from *node, to metadata.Broker) (Peer, error) {
	b := n.nodes[to.ID]
	set := b.live.Load()
	from.dials.Add(1)
	switch {
	case b.disconnected.Load() || from.disconnected.Load():
		return nil, errLink
	case set == nil && n.refuse.Load():
		// This is the error of a connection that the kernel refuses after the process has exited.
		return nil, &net.OpError{Op: "dial",
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case set == nil:
		return nil, errLink
	}
	return &link{from, b, set, make(chan struct{}, 1)}, nil
}

func (l *link) Close() error { return nil }

func (l *link) Interrupt() { signal(l.interrupts) }

func (l *link) broken() bool {
	return l.to.live.Load() != l.set || l.to.disconnected.Load() ||
		l.from.disconnected.Load()
}

func (l *link) Fetch(ctx context.Context, req *FollowerFetch) (FollowerResponse, error) {
	l.from.named.Add(int64(len(req.Partitions)))
	if slow := l.from.slow.Load(); slow != nil {
		select {
		case <-*slow:
		case <-ctx.Done():
			return FollowerResponse{}, ctx.Err()
		}
	}
	if l.broken() {
		return FollowerResponse{}, io.ErrUnexpectedEOF
	}
	request := FetchRequest{
		BytesMin: 1, BytesMax: req.BytesMax, Wait: req.Wait, Replica: &req.Replica,
		Session: req.Session, Forgotten: req.Forgotten, Interrupt: l.interrupts,
	}
	for _, p := range req.Partitions {
		request.Partitions = append(request.Partitions, FetchPartition{
			ID: p.ID, Topic: p.Topic, Offset: p.Offset, BytesMax: p.BytesMax,
			LeaderEpoch: p.LeaderEpoch, LastEpoch: p.LastEpoch, HighWater: p.HighWater,
			DurableEnd: p.DurableEnd, TombstoneClean: p.TombstoneClean,
			ReplicasTombstoneClean: p.ReplicasTombstoneClean, LogStart: p.LogStart,
			ReplicaIncarnation: p.ReplicaIncarnation,
		})
	}
	fetched, err := l.set.FetchInSession(ctx, request)
	if err != nil {
		return FollowerResponse{}, err
	}
	results := fetched.Results
	defer releaseResults(results)
	if l.broken() || ctx.Err() != nil {
		return FollowerResponse{}, io.ErrUnexpectedEOF
	}
	answers := make([]FollowerResult, 0, len(results))
	for i := range results {
		r := &results[i]
		if !r.MustRespond() {
			continue // omitted, as the request handler omits it
		}
		answer := FollowerResult{ID: r.ID, Err: r.Err, HighWater: r.HighWater, LogStart: r.LogStart,
			LogEnd: r.LogEnd, ReplicasTombstoneClean: r.ReplicasTombstoneClean, DivergingEpoch: -1}
		if r.Diverging != nil {
			answer.DivergingEpoch, answer.DivergingEnd = r.Diverging.Epoch, r.Diverging.End
		}
		if r.Data != nil && r.Data.Length > 0 {
			answer.Records = make([]byte, r.Data.Length)
			if _, err := r.Data.File.ReadAt(answer.Records, r.Data.Position); err != nil {
				return FollowerResponse{}, err
			}
		}
		answers = append(answers, answer)
	}
	return FollowerResponse{fetched.Session, answers}, nil
}
