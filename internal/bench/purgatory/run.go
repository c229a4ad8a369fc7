package purgatory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/timer"
)

// run is a measurement under way. Its times are counted from start.
type run struct {
	opts     Options
	load     load
	subject  subject
	calendar *calendar
	start    time.Time

	// The completer and the timer count at the same time, while the load generator reads what is
	// above: a cache line each.
	_         [64]byte
	completed atomic.Int64
	_         [56]byte
	expired   atomic.Int64
	_         [56]byte
	early     atomic.Int64
	lateness  histogram
	last      sync.Once
	ended     chan struct{} // closed when all requests have ended
}

// request is what waits. It has one end: by the completer or by its timeout.
type request struct {
	run         *run
	data        []byte
	latency     time.Duration      // it completes so long after its arrival
	completesAt time.Duration      // from the start
	deadline    time.Duration      // from the start
	ready       atomic.Bool        // the completer says so
	waiting     timer.Waiting[key] // in the purgatory
	rival       *waiter            // in a rival
}

// TryComplete implements timer.Operation.
func (r *request) TryComplete() bool {
	if !r.ready.Load() {
		return false
	}
	r.end(&r.run.completed)
	return true
}

// Expire implements timer.Operation.
func (r *request) Expire() {
	late := r.run.now() - r.deadline
	if late < 0 {
		r.run.early.Add(1)
		late = 0
	}
	r.run.lateness.add(late)
	r.end(&r.run.expired)
}

// end counts the request's end, and tells when it was the last. Of two that end last at once, one
// counter each, the one that adds later sees both, and the other may.
func (r *request) end(counter *atomic.Int64) {
	counter.Add(1)
	if r.run.completed.Load()+r.run.expired.Load() == int64(r.run.opts.Requests) {
		r.run.last.Do(func() { close(r.run.ended) })
	}
}

// Run measures once. ctx ends it early, with ctx's error.
func Run(ctx context.Context, opts Options) (Result, error) {
	if err := opts.Validate(); err != nil {
		return Result{}, err
	}
	r := &run{
		opts:     opts,
		load:     draw(opts),
		calendar: newCalendar(opts.Timeout),
		ended:    make(chan struct{}),
	}
	before, err := usageNow()
	if err != nil {
		return Result{}, err
	}
	r.start = time.Now()
	r.subject = makers[opts.Kind]()
	arrived, err := r.all(ctx)
	elapsed := r.now()
	r.subject.close()
	if err != nil {
		return Result{}, err
	}
	after, err := usageNow()
	return r.result(arrived, elapsed, after.since(before)), err
}

// all sends every request and waits for its end, and returns when the last arrived. The completer
// ends with it.
func (r *run) all(ctx context.Context) (arrived time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	var completer sync.WaitGroup
	completer.Go(func() { r.completeAll(ctx) })
	defer completer.Wait()
	defer stop()
	if err := r.sendAll(ctx); err != nil {
		return 0, err
	}
	arrived = r.now()
	select {
	case <-r.ended:
		return arrived, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// sendAll is the load generator. It sends all requests whose time has come, then sleeps until the
// next day of the calendar that has one: a batch a millisecond, as at a million a second there is
// no time to sleep in between. Behind its plan it does not sleep at all.
func (r *run) sendAll(ctx context.Context) error {
	next := time.Duration(0) // arrival of the next request, as planned
	for i := 0; i < r.opts.Requests; {
		now := r.now()
		for ; i < r.opts.Requests && next <= now; i++ {
			r.send(i)
			next += r.load.gaps[i%draws]
			if i%1024 == 1023 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if i < r.opts.Requests {
			r.sleepUntil(max(next, now.Truncate(dayLength)+dayLength))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// send makes request i arrive now. Its deadline counts from before the purgatory is told, so that
// no lateness is hidden.
func (r *run) send(i int) {
	now := r.now()
	latency := r.load.latencies[i%draws]
	q := &request{
		run:         r,
		data:        make([]byte, r.opts.Size),
		latency:     latency,
		completesAt: now + latency,
		deadline:    now + r.opts.Timeout,
	}
	r.subject.wait(q, r.opts.Timeout, r.load.keys[i%draws])
	if latency < r.opts.Timeout {
		r.calendar.add(q)
	}
}

// completeAll completes the requests of each day when it is over.
func (r *run) completeAll(ctx context.Context) {
	var due []*request
	for number := 0; ctx.Err() == nil; number++ {
		if end := time.Duration(number+1) * dayLength; r.now() < end {
			r.sleepUntil(end)
		}
		due = r.calendar.take(number, due[:0])
		for _, q := range due {
			r.subject.complete(q)
		}
		clear(due)
	}
}

// now is the time since the start.
func (r *run) now() time.Duration { return time.Since(r.start) }

func (r *run) sleepUntil(at time.Duration) { time.Sleep(at - r.now()) }

// result puts together what was measured. arrived is when the last request came, elapsed when the
// last ended.
func (r *run) result(arrived, elapsed time.Duration, used usage) Result {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Result{
		Kind:            r.opts.Kind,
		Requests:        r.opts.Requests,
		TargetRate:      r.opts.Rate,
		AchievedRate:    float64(r.opts.Requests) / arrived.Seconds(),
		Completed:       r.completed.Load(),
		Expired:         r.expired.Load(),
		CPUSeconds:      used.cpu.Seconds(),
		ElapsedSeconds:  elapsed.Seconds(),
		PeakMemoryBytes: peakMemory(),
		GCPausesMs:      ms(used.gcPauses),
		LatenessP50Ms:   ms(r.lateness.quantile(0.5)),
		LatenessP99Ms:   ms(r.lateness.quantile(0.99)),
		LatenessMaxMs:   ms(r.lateness.quantile(1)),
		Early:           r.early.Load(),
	}
}
