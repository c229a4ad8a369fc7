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
	"strings"
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
)

// nodes is a small cluster: several Sets, each on a real store whose disk is in memory, wired to
// each other, and the metadata they obey. It runs in a synctest bubble.
type nodes struct {
	t     *testing.T
	ids   []int32
	nodes map[int32]*node
	meta  *register
	flush time.Duration // how often logs are synced without being asked
	// refuse: connections to a broker that is dead are refused, as its machine lives; else nothing
	// comes back.
	refuse atomic.Bool
	said   said // by all brokers
}

// said is a log that is read while it is written.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *said) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), words)
}

// node is one broker.
type node struct {
	*Set
	id    int32
	disk  *vfs.Mem
	store *logstore.Store
	epoch int64
	down  bool
	// through is how it reaches its disk; nil: by itself.
	through vfs.FS
	dials   atomic.Int32                  // connections that it made
	named   atomic.Int64                  // partitions in its fetches
	live    atomic.Pointer[Set]           // what others reach; nil: nothing
	cut     atomic.Bool                   // from all other brokers
	slow    atomic.Pointer[chan struct{}] // its fetches wait for a token; nil: they do not
}

// register is the cluster's metadata: one topic, and compare-and-swap.
type register struct {
	mu     sync.Mutex
	topic  *metadata.Topic
	epochs map[int32]int64
	racks  map[int32]string
	lose   int                       // so many next answers are lost, after the change was made
	refuse error                     // what ChangeISR fails with; nil: it works
	calls  []metadata.ISRChange      // that succeeded
	told   map[int32]*metadata.Image // the newest image of each broker
}

// newNodes starts brokers 1 to count, with one partition on all of them that 1 leads.
func newNodes(t *testing.T, count int, change func(*metadata.Topic)) *nodes {
	return newNodesFlushing(t, count, 24*time.Hour, change)
}

// newNodesFlushing is newNodes whose logs are synced now and then, as the cleaner wants them.
func newNodesFlushing(t *testing.T, count int, flush time.Duration,
	change func(*metadata.Topic)) *nodes {
	n := &nodes{t: t, flush: flush, nodes: map[int32]*node{},
		meta: &register{epochs: map[int32]int64{}, racks: map[int32]string{},
			told: map[int32]*metadata.Image{}}}
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

// start opens a broker in a new incarnation; it hears of the metadata with the next apply.
func (n *nodes) start(id int32) {
	n.t.Helper()
	b := n.nodes[id]
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(n.t.Output(), &n.said),
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
		ChangeISR: metadata.ChangeISREach(64, n.meta.changeISR),
		Dial: func(_ context.Context, to metadata.Broker) (Peer,
			error) {
			return n.dial(b, to)
		},
	})
	b.live.Store(b.Set)
}

// crash ends a broker without an orderly stop; what was not synced is lost if lose is set.
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
	if err := b.store.Close(); err != nil {
		n.t.Error(err)
	}
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
			if err := b.store.Close(); err != nil {
				n.t.Error(err)
			}
		}
	}
}

// changeISR is metadata.Store's, and a compare-and-swap as the real ones.
func (r *register) changeISR(_ context.Context, change metadata.ISRChange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.topic.Partitions[change.Partition]
	if r.refuse != nil {
		return r.refuse
	}
	from, isr := slices.Sorted(slices.Values(change.From)), slices.Sorted(slices.Values(p.ISR))
	if p.LeaderEpoch != change.LeaderEpoch || !slices.Equal(from, isr) {
		return fmt.Errorf("%w: %v in epoch %d", metadata.ErrISRConflict, p.ISR, p.LeaderEpoch)
	}
	var to []int32
	for _, m := range change.To {
		if epoch, up := r.epochs[m.Broker]; !up || epoch != m.Epoch ||
			m.ReplicaIncarnation != p.ReplicaIncarnation(m.Broker) {
			return fmt.Errorf("%w: broker %d", metadata.ErrISRConflict, m.Broker)
		}
		to = append(to, m.Broker)
	}
	changed := *p
	changed.ISR = to
	r.topic.Partitions[change.Partition] = &changed
	r.calls = append(r.calls, change)
	if r.lose > 0 {
		r.lose--
		return errors.New("connection lost")
	}
	return nil
}

// image is the metadata as they are now.
func (r *register) image() *metadata.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	var brokers []metadata.Broker
	for id, epoch := range r.epochs {
		brokers = append(brokers,
			metadata.Broker{ID: id, Epoch: epoch, Rack: r.racks[id], CleanEpoch: -1})
	}
	topic := *r.topic
	topic.Partitions = slices.Clone(r.topic.Partitions)
	return metadata.NewImage("ours", metadata.CleanerBudget{}, brokers, []*metadata.Topic{&topic})
}

// apply gives every broker that lives the metadata as they are now, or only some.
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

// change changes the partition on record.
func (n *nodes) change(change func(p *metadata.Partition)) {
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	p := *n.meta.topic.Partitions[0]
	change(&p)
	n.meta.topic.Partitions[0] = &p
}

// elect makes another broker the leader, with this ISR.
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

// produce sends one batch with acks=all to a broker.
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

// settle lets everybody finish what can be done within d.
func (n *nodes) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// content is a log's batches, as bytes.
func (n *nodes) content(of int32) []byte {
	n.t.Helper()
	log := n.log(of)
	var all []byte
	for at := log.LogStart(); at < log.LogEnd(); {
		slice, err := log.ReadReplica(at, 1<<20, true)
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
		at = lastOffset(n.t, buf) + 1
	}
	return all
}

// equal fails unless all logs hold the same bytes and end at the same offset.
func (n *nodes) equal(of ...int32) {
	n.t.Helper()
	first := n.content(of[0])
	for _, id := range of[1:] {
		if other := n.content(id); !bytes.Equal(first, other) ||
			n.log(of[0]).LogEnd() != n.log(id).LogEnd() {
			n.t.Errorf("logs differ: broker %d has %d bytes up to %d, broker %d has %d up to %d",
				of[0], len(first), n.log(of[0]).LogEnd(), id, len(other), n.log(id).LogEnd())
		}
	}
}

// isr is what is on record.
func (n *nodes) isr() []int32 {
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	return slices.Sorted(slices.Values(n.meta.topic.Partitions[0].ISR))
}

// link is a Peer that asks the other Set directly.
type link struct {
	from *node
	to   *node
	of   *Set // the incarnation that was connected to

	hurries chan struct{} // holds one
}

var errLink = errors.New("no route")

func (n *nodes) dial(from *node, to metadata.Broker) (Peer, error) {
	b := n.nodes[to.ID]
	of := b.live.Load()
	from.dials.Add(1)
	switch {
	case b.cut.Load() || from.cut.Load():
		return nil, errLink
	case of == nil && n.refuse.Load():
		// as the kernel of a dead process does
		return nil, &net.OpError{Op: "dial",
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case of == nil:
		return nil, errLink
	}
	return &link{from, b, of, make(chan struct{}, 1)}, nil
}

func (l *link) Close() error { return nil }

func (l *link) Interrupt() { signal(l.hurries) }

func (l *link) broken() bool {
	return l.to.live.Load() != l.of || l.to.cut.Load() ||
		l.from.cut.Load()
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
		Session: req.Session, Forgotten: req.Forgotten, Interrupt: l.hurries,
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
	fetched, err := l.of.FetchInSession(ctx, request)
	if err != nil {
		return FollowerResponse{}, err
	}
	results := fetched.Results
	defer func() {
		for i := range results {
			if results[i].Data != nil {
				results[i].Data.Release()
			}
		}
	}()
	if l.broken() || ctx.Err() != nil {
		return FollowerResponse{}, io.ErrUnexpectedEOF
	}
	answers := make([]FollowerResult, 0, len(results))
	for i := range results {
		r := &results[i]
		if !r.MustRespond() {
			continue // as on the wire
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
