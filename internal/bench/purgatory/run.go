package purgatory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/timer"
)

// run is the state of one measurement. All times in it are relative to start.
type run struct {
	opts     Options
	load     load
	subject  subject
	schedule *schedule
	start    time.Time

	// The completer and the timer write the following fields while the load generator reads the
	// fields above. The padding gives each counter its own cache line, so that the goroutines do
	// not slow each other down.
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

// request is an operation of the purgatory. Either the completer or its timeout ends it, exactly
// once.
type request struct {
	run         *run
	data        []byte
	latency     time.Duration // from the arrival of the request to its completion
	completesAt time.Duration // from the start
	deadline    time.Duration // from the start
	ready       atomic.Bool   // true once the completer has completed the request
	waiting     timer.Waiting[key]
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

// end adds 1 to counter, which is completed or expired, and closes run.ended after the last
// request. If the last two requests end at the same time, one completed and one expired, both calls
// may find that all requests have ended. A sync.Once ensures that the channel is closed only once.
func (r *request) end(counter *atomic.Int64) {
	counter.Add(1)
	if r.run.completed.Load()+r.run.expired.Load() == int64(r.run.opts.Requests) {
		r.run.last.Do(func() { close(r.run.ended) })
	}
}

// Run performs one measurement. If ctx ends before it is finished, Run returns the error of ctx.
func Run(ctx context.Context, opts Options) (Result, error) {
	if err := opts.Validate(); err != nil {
		return Result{}, err
	}
	r := &run{
		opts:     opts,
		load:     draw(opts),
		schedule: newSchedule(opts.Timeout),
		ended:    make(chan struct{}),
	}
	before, err := usageNow()
	if err != nil {
		return Result{}, err
	}
	r.start = time.Now()
	r.subject = constructors[opts.Kind]()
	arrived, err := r.sendAndWait(ctx)
	elapsed := r.now()
	r.subject.close()
	if err != nil {
		return Result{}, err
	}
	after, err := usageNow()
	return r.result(arrived, elapsed, after.since(before)), err
}

// sendAndWait sends all requests and waits until all have ended. It returns the arrival time of the
// last request.
func (r *run) sendAndWait(ctx context.Context) (arrived time.Duration, err error) {
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

// sendAll is the load generator. It sends all requests that are due, then sleeps until the next
// millisecond in which a request is due. It cannot sleep between single requests, because at a
// million requests a second, sleeping takes longer than the microsecond between two requests. If it
// lags behind the planned arrivals, it does not sleep.
func (r *run) sendAll(ctx context.Context) error {
	next := time.Duration(0) // planned arrival of the next request
	for i := 0; i < r.opts.Requests; {
		now := r.now()
		for ; i < r.opts.Requests && next <= now; i++ {
			r.send(i)
			next += r.load.gaps[i%draws]
			if i%1024 == 1023 {
				if r.opts.Done != nil {
					r.opts.Done.Store(int64(i + 1))
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
		if i < r.opts.Requests {
			r.sleepUntil(max(next, now.Truncate(resolution)+resolution))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// send sends request i. It computes the deadline before it calls the purgatory, so that the
// lateness includes the time of this call.
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
		r.schedule.add(q)
	}
}

// completeAll completes the requests in each bucket of the schedule when the bucket's time has
// passed.
func (r *run) completeAll(ctx context.Context) {
	var due []*request
	for n := 0; ctx.Err() == nil; n++ {
		if end := time.Duration(n+1) * resolution; r.now() < end {
			r.sleepUntil(end)
		}
		due = r.schedule.take(n, due[:0])
		for _, q := range due {
			r.subject.complete(q)
		}
		clear(due)
	}
}

// now returns the time since the start of the measurement.
func (r *run) now() time.Duration { return time.Since(r.start) }

func (r *run) sleepUntil(elapsed time.Duration) { time.Sleep(elapsed - r.now()) }

// result returns the result of the measurement. The last request arrived at the time arrived, and
// all requests have ended at the time elapsed.
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
