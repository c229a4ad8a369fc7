package timer

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Timer calls back when entries are due: a Wheel with a lock, a clock and the goroutine that
// sleeps.
type Timer[T any] struct {
	opts TimerOptions
	// tick 0; its monotonic clock, so that nobody who sets the clock makes entries early or late
	start time.Time
	fire  func(T)
	guard guard

	wake    chan struct{} // holds one: an entry was added that is due before the goroutine wakes
	joined  chan struct{}
	wakeups atomic.Int64 // written by the goroutine

	mu struct {
		sync.Mutex
		wheel  Wheel[T]
		wakeAt int64 // the tick the goroutine sleeps until; MaxInt64: until a poke
		closed bool
	}
}

// TimerOptions of a Timer. The zero value is ready.
type TimerOptions struct {
	Tick    time.Duration // resolution; default 1 ms
	Buckets int           // of a level of the wheel, 2 to 64; default 20
	Logger  *slog.Logger  // of callbacks that panic; default slog.Default()
}

func (o *TimerOptions) setDefaults() {
	if o.Tick <= 0 {
		o.Tick = time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Stats of a timer.
type Stats struct {
	Pending int   // entries still to come
	Wakeups int64 // how often the goroutine woke since the start: the price of the clock
	Panics  int64 // callbacks that panicked since the start
}

// NewTimer starts a timer; Close stops it. fire is called from the timer's one goroutine in the
// order of the due ticks, without a lock, and must not block: those that are due meanwhile come
// late. Should it panic, that is counted and logged, and the timer goes on.
func NewTimer[T any](opts TimerOptions, fire func(T)) *Timer[T] {
	opts.setDefaults()
	t := &Timer[T]{
		opts:   opts,
		start:  time.Now(),
		fire:   fire,
		guard:  guard{logger: opts.Logger},
		wake:   make(chan struct{}, 1),
		joined: make(chan struct{}),
	}
	t.mu.wheel.Buckets = opts.Buckets
	t.mu.wakeAt = math.MaxInt64
	go t.run()
	return t
}

// Add makes e due after a timeout: never earlier, and two ticks later at most, on a machine that
// wakes the goroutine in time. It returns false when the timer is closed. e must not be pending.
func (t *Timer[T]) Add(e *Entry[T], timeout time.Duration) bool {
	now, due := t.ticks(timeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(e, now, due)
}

// addLocked is Add, by what ticks returned.
func (t *Timer[T]) addLocked(e *Entry[T], now, due int64) bool {
	if t.mu.closed {
		return false
	}
	t.mu.wheel.Skip(now)
	t.mu.wheel.Add(e, due)
	t.comesFirstLocked(due)
	return true
}

// Reset gives a pending e another timeout from now, in place of that it had, and tells whether it
// was pending. False may mean that fire is being called with e at this moment. It allocates
// nothing: a session does this with each heartbeat.
func (t *Timer[T]) Reset(e *Entry[T], timeout time.Duration) bool {
	now, due := t.ticks(timeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.wheel.Skip(now)
	if !t.mu.wheel.Reset(e, due) {
		return false
	}
	t.comesFirstLocked(due)
	return true
}

// Remove takes e out, and tells whether it was pending. False may mean that fire is being called
// with e at this moment. The goroutine's sleep is left as it is: it may wake once for nothing.
func (t *Timer[T]) Remove(e *Entry[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wheel.Remove(e)
}

// Stats tells the timer's figures at this moment.
func (t *Timer[T]) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Pending: t.mu.wheel.Len(), Wakeups: t.wakeups.Load(),
		Panics: t.guard.panics.Load()}
}

// Close fires what is still to come, and joins the goroutine. Not to be called by fire, which runs
// in it.
func (t *Timer[T]) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.poke()
	t.mu.Unlock()
	<-t.joined
}

// comesFirstLocked wakes the goroutine if an entry comes before it would wake by itself. Between
// its look at the wheel and its sleep wakeAt is already set, and wake keeps the message: it is not
// lost.
func (t *Timer[T]) comesFirstLocked(due int64) {
	if due < t.mu.wakeAt {
		t.mu.wakeAt = due // one message is enough
		t.poke()
	}
}

// poke wakes the goroutine, or leaves the message for its next sleep. It never blocks, so it may be
// called under the lock.
func (t *Timer[T]) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine: it fires what is due, without the lock, and sleeps until the next bucket or
// a poke. With nothing pending it sleeps until a poke, and the runtime has no timer of it.
func (t *Timer[T]) run() {
	defer close(t.joined)
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	var due []*Entry[T]
	for {
		var sleep time.Duration
		var closed bool
		due, sleep, closed = t.advance(due[:0])
		for i, e := range due {
			t.call(e)
			due[i] = nil // a big burst must not keep its operations alive
		}
		if len(due) > 0 {
			continue // firing took time, and more may be due by now
		}
		if closed {
			return
		}
		if alarm.Stop(); sleep < math.MaxInt64 {
			alarm.Reset(sleep)
		}
		select {
		case <-alarm.C:
		case <-t.wake:
		}
		t.wakeups.Add(1)
	}
}

// call runs the callback; should it panic, the guard catches that.
func (t *Timer[T]) call(e *Entry[T]) {
	defer t.guard.caught()
	t.fire(e.Value)
}

// advance takes what is due now, or everything once the timer is closed, and tells how long to
// sleep if that is nothing: MaxInt64 if nothing is pending.
func (t *Timer[T]) advance(due []*Entry[T]) (_ []*Entry[T], sleep time.Duration, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Since(t.start)
	now := int64(at / t.opts.Tick)
	if t.mu.closed {
		now = math.MaxInt64
	}
	due = t.mu.wheel.Advance(now, due)
	next, some := t.mu.wheel.Next()
	t.mu.wakeAt = next
	if !some || next > math.MaxInt64/int64(t.opts.Tick) {
		return due, math.MaxInt64, t.mu.closed
	}
	return due, time.Duration(next)*t.opts.Tick - at, t.mu.closed
}

// ticks are the tick of now, and the first that begins after the timeout.
func (t *Timer[T]) ticks(timeout time.Duration) (now, due int64) {
	at := time.Since(t.start)
	now = int64(at / t.opts.Tick)
	if timeout > math.MaxInt64-at-t.opts.Tick {
		return now, math.MaxInt64
	}
	return now, int64((at + max(timeout, 0) + t.opts.Tick - 1) / t.opts.Tick)
}
