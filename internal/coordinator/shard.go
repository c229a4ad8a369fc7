package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/timer"
)

const (
	// expireRecords is about how many tombstones are written in one turn, so that requests come in
	// between.
	expireRecords = 10_000
	// reloadPause is between a failure and the next try to read.
	reloadPause = time.Second
)

// shard is the coordinator of the groups of one partition, in one leader epoch.
type shard struct {
	runtime *Runtime
	id      replica.PartitionID
	topic   metadata.ID
	epoch   int32
	logger  *slog.Logger
	ctx     context.Context //nolint:containedctx // its end is the shard's: stop
	stop    context.CancelFunc
	done    chan struct{} // closed once run has ended

	wake  chan struct{} // holds one: the queue is not empty
	queue struct {
		sync.Mutex
		events []event
		open   bool // what comes is taken: the state is loaded
		news   news
	}
	offsets atomic.Int64                   // for metrics
	phases  atomic.Pointer[map[string]int] // groups in each phase; for metrics

	// Of the goroutine.
	state   *group.State
	last    int64 // offset of the last record the state was made of
	waiting map[group.Token]chan<- answered
	token   group.Token
	timers  map[group.TimerKey]*timer.Entry[due]
	broken  bool // the state is of no use any more

	configured metadata.Groups // what the state was told
	expiry     *time.Ticker
	expired    uint64 // of state.Expired, how many are counted in the metrics
}

// event is something for the goroutine to do; fail is called in its place when the shard cannot. In
// place of run, one that only stores may have two halves, so that those that stand in a row are
// stored together: prepare says what to store, and stored is told what came of it.
type event struct {
	run     func(now time.Time)
	prepare func(now time.Time) group.Output // without answers, and not Soft
	stored  func(error)
	fail    func(error)
}

// answered is an answer, and the offset that must be below the high watermark before it is given.
type answered struct {
	group.Answer
	last int64
}

// due is a timer that went off.
type due struct {
	shard *shard
	key   group.TimerKey
}

func newShard(r *Runtime, topic metadata.ID, p *metadata.Partition) *shard {
	s := &shard{
		runtime: r, id: replica.PartitionID{Topic: OffsetsTopic, Index: p.Index}, topic: topic,
		epoch: p.LeaderEpoch,
		done:  make(chan struct{}), wake: make(chan struct{}, 1), last: -1,
	}
	s.logger = r.opts.Logger.With("partition", s.id, "leaderEpoch", s.epoch)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// run is the goroutine. after is closed once nobody appends for an earlier epoch any more; nil:
// nobody does.
func (s *shard) run(after <-chan struct{}) {
	defer close(s.done)
	if after != nil {
		<-after
	}
	for reported := ""; s.ctx.Err() == nil; {
		began := time.Now()
		if err := s.load(); err == nil {
			took := time.Since(began)
			s.runtime.metrics.load.Observe(took.Seconds())
			s.logger.Debug("groups loaded", "groups", s.state.Groups(), "offsets",
				s.state.Offsets(), "took", took)
			reported = ""
			s.serve()
		} else if s.ctx.Err() == nil && err.Error() != reported {
			reported = err.Error()
			s.logger.Error("groups could not be loaded", "error", err)
		}
		s.unload()
		select {
		case <-s.ctx.Done():
		case <-time.After(reloadPause):
		}
	}
}

// serve takes events until the shard is given up, or its state is of no use any more.
func (s *shard) serve() {
	s.expiry = time.NewTicker(expireInterval)
	defer s.expiry.Stop()
	count := time.NewTicker(countInterval)
	defer count.Stop()
	s.queue.Lock()
	s.queue.open = true // before the first timer is set: one that goes off is not lost
	s.queue.Unlock()
	s.state.Loaded(time.Now())
	s.look(time.Now(), true)
	s.countPhases()
	for !s.broken {
		s.measure()
		select {
		case <-s.ctx.Done():
			return
		case <-count.C:
			s.countPhases()
		case now := <-s.expiry.C:
			s.expire(now)
		case <-s.wake:
			s.queue.Lock()
			events := s.queue.events
			s.queue.events = nil
			s.queue.Unlock()
			s.do(events)
		}
	}
}

// do does what events say, in their order.
func (s *shard) do(events []event) {
	for len(events) > 0 {
		if s.broken || s.ctx.Err() != nil {
			s.failAll(events)
			return
		}
		n := slices.IndexFunc(events, func(e event) bool { return e.prepare == nil })
		switch {
		case n < 0:
			s.together(time.Now(), events)
			return
		case n > 0:
			s.together(time.Now(), events[:n])
		default:
			n = 1
			events[0].run(time.Now())
		}
		events = events[n:]
	}
}

// together does events that only store, with as few appends as hold it: under load a coordinator's
// time goes into appends, and each wakes the followers.
func (s *shard) together(now time.Time, events []event) {
	var all []group.Record
	ends := make([]int, len(events)) // where an event's records end
	for i, e := range events {
		all = append(all, e.prepare(now).Records...)
		ends[i] = len(all)
	}
	for i, from := 0, 0; i < len(events); {
		n, err := s.append(now, group.Output{Records: all[from:]})
		for from += n; i < len(events) && ends[i] <= from; i++ {
			events[i].stored(nil)
		}
		if i == len(events) {
			return
		}
		events[i].stored(err)
		from, i = ends[i], i+1
		if errors.Is(err, group.ErrRecordTooLarge) {
			continue // this one's cannot be stored; those behind it are tried again
		}
		// nothing can be stored now: to try each by itself would build as many batches for nothing
		for ; i < len(events); i++ {
			if ends[i] > from {
				events[i].stored(err)
			} else {
				events[i].stored(nil)
			}
			from = ends[i]
		}
	}
}

// reason is what those are told that cannot be served.
func (s *shard) reason() error {
	if s.ctx.Err() != nil {
		return ErrNotCoordinator
	}
	return ErrLoading
}

func (s *shard) failAll(events []event) {
	for _, e := range events {
		e.fail(s.reason())
	}
}

// unload gives up the state, and answers all who wait.
func (s *shard) unload() {
	s.queue.Lock()
	s.queue.open = false
	events := s.queue.events
	s.queue.events = nil
	s.queue.Unlock()
	s.failAll(events)
	for _, to := range s.waiting {
		to <- answered{group.Answer{Err: s.reason()}, -1}
	}
	for _, entry := range s.timers {
		s.runtime.timer.Remove(entry)
	}
	s.waiting, s.timers, s.state, s.broken = nil, nil, nil, false
	s.offsets.Store(0)
	s.phases.Store(nil)
	s.configured, s.expired = metadata.Groups{}, 0
}

// push gives the goroutine something to do, and tells whether it will.
func (s *shard) push(e event) bool {
	s.queue.Lock()
	defer s.queue.Unlock()
	if !s.queue.open {
		return false
	}
	s.queue.events = append(s.queue.events, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

// fire is called by the timer; the State tells whether it was for nothing.
func (s *shard) fire(key group.TimerKey) {
	s.push(event{
		run:  func(now time.Time) { _ = s.settle(now, s.state.Fire(now, key)) },
		fail: func(error) {},
	})
}

func (s *shard) expire(now time.Time) {
	out, more := s.state.Expire(now, expireRecords)
	if err := s.settle(now, out); err == nil && more {
		s.push(event{run: s.expire, fail: func(error) {}})
	}
}

// Set implements group.Timers.
func (s *shard) Set(key group.TimerKey, d time.Duration) {
	entry := s.timers[key]
	if entry == nil {
		entry = &timer.Entry[due]{Value: due{s, key}}
		s.timers[key] = entry
	}
	if !s.runtime.timer.Reset(entry, d) {
		s.runtime.timer.Add(entry, d)
	}
}

// Clear implements group.Timers.
func (s *shard) Clear(key group.TimerKey) {
	if entry := s.timers[key]; entry != nil {
		s.runtime.timer.Remove(entry)
		delete(s.timers, key)
	}
}

// settle does what follows from a call of the State: it appends, replays and answers. On an error
// nothing of it is done, or part of the records; the State agrees with the log, or is broken.
func (s *shard) settle(now time.Time, out group.Output) error {
	_, err := s.append(now, out)
	return err
}

// append is settle, and says how many of the records are stored.
func (s *shard) append(now time.Time, out group.Output) (stored int, err error) {
	answers := out.Answers
	for records := out.Records; len(records) > 0; {
		batch, n, err := s.build(now, records)
		if err == nil {
			var last int64
			last, err = s.runtime.opts.Replicas.AppendIn(s.epoch,
				replica.ProducePartition{ID: s.id, Topic: s.topic, Batch: batch})
			s.last = max(s.last, last)
		}
		if err != nil {
			s.broken = s.broken || out.Soft
			err = storeError(err)
			for _, a := range answers {
				a.Err = err
				s.give(a)
			}
			return stored, err
		}
		stored += n
		s.runtime.metrics.appends.Inc()
		for _, r := range records[:n] {
			more, err := s.state.Replay(now, r.Key, r.Value)
			if err != nil { // we cannot read what we wrote: whoever comes after us could not either
				s.logger.Error("own record not understood", "error", err)
				s.broken = true
			}
			answers = append(answers, more...)
		}
		records = records[n:]
	}
	for _, a := range answers {
		s.give(a)
	}
	return stored, nil
}

func (s *shard) give(a group.Answer) {
	if to := s.waiting[a.To]; to != nil {
		delete(s.waiting, a.To)
		to <- answered{a, s.last} // it has room
	}
}
