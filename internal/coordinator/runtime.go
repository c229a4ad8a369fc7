package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/timer"
)

// OffsetsTopic is where groups are stored.
const OffsetsTopic = metadata.OffsetsTopic

// Why a group cannot be served here and now. All go away by asking again, ErrNotCoordinator by
// asking elsewhere.
var (
	ErrNotCoordinator = errors.New("not the group's coordinator")
	ErrLoading        = errors.New("the coordinator loads its groups")
	ErrNotAvailable   = errors.New("the group's coordinator is not available")
)

// commitWait is how long what was appended may take to be on all in-sync replicas (Kafka's
// offsets.commit.timeout.ms).
const commitWait = 5 * time.Second

// Options of a Runtime. All but Groups, Registry and Logger must be set.
type Options struct {
	NodeID   int32
	Replicas *replica.Set
	Image    func() *metadata.Image
	Await    func(ctx context.Context, enough func(*metadata.Image) bool)
	Admin    metadata.Admin
	Groups   group.Config
	Registry prometheus.Registerer // may be nil
	Logger   *slog.Logger          // default: discards
}

// Runtime is the coordinators on this broker.
type Runtime struct {
	opts  Options
	timer *timer.Timer[due]
	view  atomic.Pointer[view]
	shown atomic.Pointer[shownTopics]
	tasks sync.WaitGroup

	metrics metrics
	mu      struct {
		sync.Mutex
		image  *metadata.Image           // that was applied
		ends   map[int32]<-chan struct{} // closed when the last shard of a partition has ended
		closed bool
	}
}

// view is which partitions there are, and the shards of those that are led here. It is immutable.
type view struct {
	partitions int // 0: the topic is not there
	batchBytes int // how large a batch the topic takes; 0: unknown
	shards     map[int32]*shard
}

// New starts a runtime without shards; Close stops it.
func New(opts Options) *Runtime {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{opts: opts}
	r.timer = timer.NewTimer(timer.TimerOptions{Logger: opts.Logger, Tick: 10 * time.Millisecond},
		func(d due) { d.shard.fire(d.key) })
	r.view.Store(&view{})
	r.mu.ends = map[int32]<-chan struct{}{}
	r.metrics = newMetrics(r)
	return r
}

// Apply starts and stops shards as an image says, once replica.Set.Apply did so with its
// partitions. It is called from one goroutine and waits for nothing.
func (r *Runtime) Apply(img *metadata.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return
	}
	before, next := r.view.Load(), &view{shards: map[int32]*shard{}}
	if topic := img.Topic(OffsetsTopic); topic != nil {
		next.partitions, next.batchBytes = len(topic.Partitions), topic.Settings.MessageBytesMax
		for _, p := range topic.Partitions {
			if p.Leader == r.opts.NodeID {
				next.shards[p.Index] = r.shardLocked(before.shards[p.Index], topic, p)
			}
		}
	}
	for index, old := range before.shards {
		if next.shards[index] != old {
			old.stop()
		}
	}
	r.view.Store(next)
	of := newsOf(r.mu.image, img)
	for _, s := range next.shards {
		s.tell(of)
	}
	r.mu.image = img
}

// shardLocked returns the shard of a partition: the one there is, if it is of this epoch, else one
// that begins when that has ended.
func (r *Runtime) shardLocked(old *shard, topic *metadata.Topic, p *metadata.Partition) *shard {
	if old != nil && old.epoch == p.LeaderEpoch && old.topic == topic.ID {
		return old
	}
	if old != nil {
		old.stop()
	}
	s, after := newShard(r, topic.ID, p), r.mu.ends[p.Index]
	r.mu.ends[p.Index] = s.done
	r.tasks.Go(func() { s.run(after) })
	return s
}

// Close ends all shards; requests that wait are told ErrNotCoordinator.
func (r *Runtime) Close() {
	r.mu.Lock()
	closed := r.mu.closed
	r.mu.closed = true
	for _, s := range r.view.Load().shards {
		s.stop()
	}
	r.mu.Unlock()
	r.tasks.Wait()
	if !closed {
		r.timer.Close()
	}
}

// partitionOf is where a group is, as in Kafka (GroupCoordinatorService.partitionFor), so that
// offsets that were copied over are found: by the absolute value of Java's String.hashCode. The
// least one has none, and is 0.
func partitionOf(groupID string, partitions int) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(groupID)) {
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % int32(partitions)
}

// shard returns the one that serves a group.
func (r *Runtime) shard(groupID string) (*shard, error) {
	v := r.view.Load()
	if v.partitions == 0 {
		return nil, ErrNotAvailable
	}
	if s := v.shards[partitionOf(groupID, v.partitions)]; s != nil {
		return s, nil
	}
	return nil, ErrNotCoordinator
}
