package runtime

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

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/timer"
)

// These are reasons why this broker cannot serve a key now. Clients retry after all three errors;
// after ErrNotCoordinator they first look up the coordinator again.
var (
	ErrNotCoordinator = errors.New("not the coordinator")
	ErrLoading        = errors.New("coordinator is loading")
	ErrNotAvailable   = errors.New("coordinator is not available")
)

// Options configures a Runtime. All fields except Release and Logger must be set.
type Options[S Machine[K, A], K comparable, A any] struct {
	NodeID int32
	// Topic is the internal topic. The first call of Find creates it.
	Topic metadata.NewTopic
	// NewMachine returns the state machine of an empty partition.
	NewMachine func(state.Timers[K]) S
	// ConfigChanged reports whether the settings of coordinators differ between two images. In that
	// case the machines receive the second image even if no topic was created or deleted.
	ConfigChanged func(before, now *metadata.Image) bool
	// Release receives the results of answers with token state.Effect, in order, once every record on
	// which they may depend is below the high watermark. It must not block. ctx ends when the shard
	// discards the machine that returned the answer. Release may be nil if the machines return no such
	// answers.
	Release func(ctx context.Context, s *Shard[S, K, A], result A)
	// ExpireInterval returns the time between two calls of Machine.Expire.
	ExpireInterval func(*metadata.Image) time.Duration

	Replicas *replica.Set
	Image    func() *metadata.Image
	Await    func(ctx context.Context, enough func(*metadata.Image) bool)
	Admin    metadata.Admin

	Appends     prometheus.Counter  // number of appended batches
	LoadSeconds prometheus.Observer // observer of the time to load a partition
	Logger      *slog.Logger        // logger; by default, messages are discarded
}

// Runtime runs the shards of one internal topic on this broker.
type Runtime[S Machine[K, A], K comparable, A any] struct {
	opts  Options[S, K, A]
	timer *timer.Timer[dueTimer[S, K, A]]
	view  atomic.Pointer[view[S, K, A]]
	tasks sync.WaitGroup

	mu struct {
		sync.Mutex
		image *metadata.Image // last image passed to Apply
		// stopped contains, for each partition, a channel that is closed after the newest shard has
		// stopped.
		stopped map[int32]<-chan struct{}
		closed  bool
	}
}

// view is an immutable snapshot of the internal topic in the last image, and of the shards of the
// partitions that this broker leads.
type view[S Machine[K, A], K comparable, A any] struct {
	partitions    int // number of partitions; 0 if the topic does not exist
	batchBytesMax int // maximum size of a batch in the topic; 0: unknown
	shards        map[int32]*Shard[S, K, A]
}

// New returns a runtime without shards. Close stops the runtime.
func New[S Machine[K, A], K comparable, A any](opts Options[S, K, A]) *Runtime[S, K, A] {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime[S, K, A]{opts: opts}
	r.timer = timer.NewTimer(timer.TimerOptions{Logger: opts.Logger, Tick: 10 * time.Millisecond},
		func(d dueTimer[S, K, A]) { d.shard.fire(d.key) })
	r.view.Store(&view[S, K, A]{})
	r.mu.stopped = map[int32]<-chan struct{}{}
	return r
}

// Apply starts and stops shards, so that there is one for each partition of the topic that this
// broker leads in the image. The caller calls Apply from one goroutine, after replica.Set.Apply has
// applied the same image. Apply does not block.
func (r *Runtime[S, K, A]) Apply(img *metadata.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return
	}
	delta := deltaOf(r.mu.image, img)
	relevant := len(delta.Changed) > 0 ||
		r.mu.image != nil && r.opts.ConfigChanged(r.mu.image, img)
	before, next := r.view.Load(), &view[S, K, A]{shards: map[int32]*Shard[S, K, A]{}}
	if topic := img.Topic(r.opts.Topic.Name); topic != nil {
		next.partitions = len(topic.Partitions)
		next.batchBytesMax = topic.Settings.MessageBytesMax
		for _, p := range topic.Partitions {
			if p.Leader == r.opts.NodeID {
				next.shards[p.Index] = r.shardLocked(before.shards[p.Index], topic, p, delta)
			}
		}
	}
	for index, old := range before.shards {
		if next.shards[index] != old {
			old.stop()
		}
	}
	r.view.Store(next)
	for index, s := range next.shards {
		if before.shards[index] == s {
			s.applyMetadata(delta, relevant)
		}
	}
	r.mu.image = img
}

// shardLocked returns the shard of a partition that this broker leads. If old does not belong to
// the partition's leader epoch, shardLocked stops it and returns a new shard, which starts to load
// after old has stopped.
func (r *Runtime[S, K, A]) shardLocked(old *Shard[S, K, A], topic *metadata.Topic,
	p *metadata.Partition, delta Delta) *Shard[S, K, A] {
	if old != nil && old.epoch == p.LeaderEpoch && old.topic == topic.ID {
		return old
	}
	if old != nil {
		old.stop()
	}
	s, after := newShard(r, topic, p, delta), r.mu.stopped[p.Index]
	r.mu.stopped[p.Index] = s.done
	r.tasks.Go(func() { s.run(after) })
	return s
}

// Close stops all shards. Waiting requests return ErrNotCoordinator.
func (r *Runtime[S, K, A]) Close() {
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

// PartitionFor returns the partition that stores a key: the absolute value of Java's
// String.hashCode, modulo the number of partitions. If the hash is the smallest int32, which has no
// absolute value, the result is 0. Kafka computes the partition in the same way
// (GroupCoordinatorService.partitionFor), so an internal topic that is copied from Kafka remains
// valid.
func PartitionFor(key string, partitions int) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(key)) {
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % int32(partitions)
}

// Shard returns the shard that serves a key. It returns ErrNotAvailable if the topic does not
// exist, and ErrNotCoordinator if this broker does not lead the key's partition.
func (r *Runtime[S, K, A]) Shard(key string) (*Shard[S, K, A], error) {
	v := r.view.Load()
	if v.partitions == 0 {
		return nil, ErrNotAvailable
	}
	if s := v.shards[PartitionFor(key, v.partitions)]; s != nil {
		return s, nil
	}
	return nil, ErrNotCoordinator
}

// Shards returns all shards of this broker, ordered by partition.
func (r *Runtime[S, K, A]) Shards() []*Shard[S, K, A] {
	v := r.view.Load()
	all := make([]*Shard[S, K, A], 0, len(v.shards))
	for index := range int32(v.partitions) {
		if s := v.shards[index]; s != nil {
			all = append(all, s)
		}
	}
	return all
}
