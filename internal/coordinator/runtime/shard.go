package runtime

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/timer"
)

const (
	// expireRecords limits the number of records in one call of Machine.Expire, so that the shard can
	// serve requests between two calls.
	expireRecords = 10_000
	// reloadBackoff is the time after a failed attempt to load the partition until the next attempt.
	reloadBackoff = time.Second
	// SampleInterval is the time between two calls of Machine.Measure with sample set.
	SampleInterval = 5 * time.Second
)

// Shard is the coordinator of one partition in one leader epoch.
type Shard[S Machine[K, A], K comparable, A any] struct {
	runtime *Runtime[S, K, A]
	id      replica.PartitionID
	topic   metadata.ID
	epoch   int32
	logger  *slog.Logger
	ctx     context.Context //nolint:containedctx // canceled by stop
	stop    context.CancelFunc
	done    chan struct{} // closed after run has returned

	wake  chan struct{} // channel with a buffer of one; contains a value while the queue is not empty
	queue struct {
		sync.Mutex
		events  []event
		open    bool  // true if the state is loaded, so that push accepts events
		delta   Delta // changes that the machine has not received yet
		pending bool  // true if events contains an event that passes delta to the machine
	}

	// Only the shard's goroutine uses the fields below.
	machine S
	// transactional is the machine, or nil if the machine is not a TransactionalMachine.
	transactional TransactionalMachine[A]
	last          int64 // offset of the last record that the state contains
	waiting       map[state.Token]chan<- answered[A]
	token         state.Token // token of the newest request in waiting
	timers        map[K]*timer.Entry[dueTimer[S, K, A]]
	effects       *effects[A]
	inconsistent  bool // true if the state must be loaded again
	expiry        *time.Ticker
	interval      time.Duration // time between two calls of Machine.Expire
}

// Epoch returns the leader epoch in which the shard coordinates its partition.
func (s *Shard[S, K, A]) Epoch() int32 { return s.epoch }

// Partition returns the number of the partition that the shard coordinates.
func (s *Shard[S, K, A]) Partition() int32 { return s.id.Index }

// answered is an answer, and the offset of the last record on which it may depend. The answer is
// sent once this offset is below the high watermark.
type answered[A any] struct {
	state.Answer[A]
	last int64
}

// dueTimer identifies a timer by its shard and key, for the timer's goroutine.
type dueTimer[S Machine[K, A], K comparable, A any] struct {
	shard *Shard[S, K, A]
	key   K
}

func newShard[S Machine[K, A], K comparable, A any](r *Runtime[S, K, A], topic *metadata.Topic,
	p *metadata.Partition, delta Delta) *Shard[S, K, A] {
	s := &Shard[S, K, A]{
		runtime: r, id: replica.PartitionID{Topic: topic.Name, Index: p.Index}, topic: topic.ID,
		epoch: p.LeaderEpoch, done: make(chan struct{}), wake: make(chan struct{}, 1), last: -1,
	}
	s.queue.delta.Image = delta.Image
	s.queue.delta.merge(delta)
	s.logger = r.opts.Logger.With("partition", s.id, "leaderEpoch", s.epoch)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// run is the shard's goroutine. It first waits until after is closed, because then the partition's
// previous shard has stopped. after is nil if there was no previous shard.
func (s *Shard[S, K, A]) run(after <-chan struct{}) {
	defer close(s.done)
	if after != nil {
		<-after
	}
	for logged := ""; s.ctx.Err() == nil; {
		began := time.Now()
		if err := s.load(); err == nil {
			took := time.Since(began)
			s.runtime.opts.LoadSeconds.Observe(took.Seconds())
			s.logger.Debug("coordinator shard loaded", "state", s.machine, "took", took)
			logged = ""
			s.serve()
		} else if s.ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			s.logger.Error("failed to load coordinator shard", "error", err)
		}
		s.unload()
		select {
		case <-s.ctx.Done():
		case <-time.After(reloadBackoff):
		}
	}
}

// serve handles events until the shard stops or its state is inconsistent.
func (s *Shard[S, K, A]) serve() {
	s.queue.Lock()
	// Open the queue before the machine sets its first timer. Otherwise fire would drop the timer's
	// event.
	s.queue.open = true
	s.queue.Unlock()
	s.interval = s.runtime.opts.ExpireInterval(s.image())
	s.expiry = time.NewTicker(s.interval)
	defer s.expiry.Stop()
	sample := time.NewTicker(SampleInterval)
	defer sample.Stop()
	s.startEffects()
	defer s.effects.close()
	s.handDelta(time.Now(), s.machine.Loaded)
	s.machine.Measure(true)
	for !s.inconsistent {
		s.machine.Measure(false)
		select {
		case <-s.ctx.Done():
			return
		case <-sample.C:
			s.machine.Measure(true)
		case now := <-s.expiry.C:
			s.expire(now)
		case <-s.wake:
			s.handle(s.takeEvents())
		}
	}
}

// unload discards the state, and answers all waiting requests with an error.
func (s *Shard[S, K, A]) unload() {
	s.queue.Lock()
	s.queue.open = false
	s.queue.Unlock()
	s.failAll(s.takeEvents())
	for _, to := range s.waiting {
		to <- answered[A]{state.Answer[A]{Err: s.reason()}, -1}
	}
	for _, entry := range s.timers {
		s.runtime.timer.Remove(entry)
	}
	if s.timers != nil { // timers is nil if load has not created a machine
		s.machine.Close()
	}
	var none S
	s.waiting, s.timers, s.machine, s.inconsistent = nil, nil, none, false
	s.transactional = nil
}

// reason returns the error for requests that this shard does not serve now.
func (s *Shard[S, K, A]) reason() error {
	if s.ctx.Err() != nil {
		return ErrNotCoordinator
	}
	return ErrLoading
}

// image returns the newest metadata image that the shard has received.
func (s *Shard[S, K, A]) image() *metadata.Image {
	s.queue.Lock()
	defer s.queue.Unlock()
	return s.queue.delta.Image
}

// applyMetadata adds the changes in a new image to the pending delta. If relevant is set, it also
// queues an event that passes the delta to the machine. While the shard is loading, no event is
// needed, because Machine.Loaded receives the delta.
func (s *Shard[S, K, A]) applyMetadata(delta Delta, relevant bool) {
	s.queue.Lock()
	q := &s.queue
	q.delta.Image = delta.Image
	q.delta.merge(delta)
	push := relevant && q.open && !q.pending
	q.pending = q.pending || push
	s.queue.Unlock()
	if push {
		s.push(event{
			run:  func(now time.Time) { s.handDelta(now, s.machine.ApplyMetadata) },
			fail: func(error) {},
		})
	}
}

// handDelta passes the pending delta to the machine's method Loaded or ApplyMetadata. If the
// resulting records cannot be stored, the delta becomes pending again, and the machine receives it
// together with the next relevant image.
func (s *Shard[S, K, A]) handDelta(now time.Time,
	receive func(time.Time, Delta) state.Output[A]) {
	s.queue.Lock()
	delta := s.queue.delta
	s.queue.delta, s.queue.pending = Delta{Image: delta.Image}, false
	s.queue.Unlock()
	if interval := s.runtime.opts.ExpireInterval(delta.Image); interval != s.interval {
		s.interval = interval
		s.expiry.Reset(interval)
	}
	if s.apply(now, receive(now, delta)) != nil {
		s.queue.Lock()
		s.queue.delta.merge(delta)
		s.queue.Unlock()
	}
}

func (s *Shard[S, K, A]) expire(now time.Time) {
	out, more := s.machine.Expire(now, expireRecords)
	if err := s.apply(now, out); err == nil && more {
		s.push(event{run: s.expire, fail: func(error) {}})
	}
}

// fire queues the event for an expired timer. It is called by the timer's goroutine.
func (s *Shard[S, K, A]) fire(key K) {
	s.push(event{
		run:  func(now time.Time) { _ = s.apply(now, s.machine.Fire(now, key)) },
		fail: func(error) {},
	})
}

// Set implements state.Timers.
func (s *Shard[S, K, A]) Set(key K, d time.Duration) {
	entry := s.timers[key]
	if entry == nil {
		entry = &timer.Entry[dueTimer[S, K, A]]{Value: dueTimer[S, K, A]{s, key}}
		s.timers[key] = entry
	}
	if !s.runtime.timer.Reset(entry, d) {
		s.runtime.timer.Add(entry, d)
	}
}

// Clear implements state.Timers.
func (s *Shard[S, K, A]) Clear(key K) {
	if entry := s.timers[key]; entry != nil {
		s.runtime.timer.Remove(entry)
		delete(s.timers, key)
	}
}
