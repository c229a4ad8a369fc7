package timer

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Timer calls a function for each entry when the entry is due. It consists of a Wheel, a lock, a
// clock and a goroutine.
type Timer[T any] struct {
	opts TimerOptions
	// start is the time of tick 0. It is a monotonic time, so setting the wall clock has no effect.
	start time.Time
	fire  func(T)
	guard guard

	// wake receives a value when the goroutine must wake before wakeAt. It has a buffer of one
	// value.
	wake    chan struct{}
	joined  chan struct{}
	wakeups atomic.Int64 // number of wake-ups of the goroutine

	mu struct {
		sync.Mutex
		wheel Wheel[T]
		// wakeAt is the tick at which the goroutine wakes; MaxInt64 if it sleeps until poke is called.
		wakeAt int64
		closed bool
	}
}

// TimerOptions configures a Timer. The zero value selects the defaults.
type TimerOptions struct {
	Tick    time.Duration // duration of a tick; default 1 ms
	Buckets int           // number of buckets per level of the wheel, 2 to 64; default 20
	Logger  *slog.Logger  // logger for panics of callbacks; default slog.Default()
}

func (o *TimerOptions) setDefaults() {
	if o.Tick <= 0 {
		o.Tick = time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Stats contains the counters of a Timer.
type Stats struct {
	Pending int   // number of pending entries
	Wakeups int64 // number of times that the goroutine has woken since the start
	Panics  int64 // number of callbacks that have panicked since the start
}

// NewTimer starts a timer; Close stops it. The timer's goroutine calls fire for each due entry, in
// the order of the due ticks, without holding a lock. fire must not block, because later entries
// would be delayed. If fire panics, the timer counts and logs the panic, and continues.
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

// Add schedules the entry e to fire after a timeout. The entry never fires early. It fires at most
// one tick late, plus the time that the goroutine needs to wake and to fire earlier entries. Add
// returns false if the timer is closed. The entry must not be pending.
func (t *Timer[T]) Add(e *Entry[T], timeout time.Duration) bool {
	now, due := t.ticks(timeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(e, now, due)
}

// addLocked implements Add. The parameters now and due are the results of ticks.
func (t *Timer[T]) addLocked(e *Entry[T], now, due int64) bool {
	if t.mu.closed {
		return false
	}
	t.mu.wheel.Skip(now)
	t.mu.wheel.Add(e, due)
	t.wakeEarlierLocked(due)
	return true
}

// Reset sets a new timeout, which begins now, if the entry e is pending. It reports whether e was
// pending. If e was not pending, the goroutine may be firing e at this moment. Reset does not
// allocate, because sessions call it for each heartbeat.
func (t *Timer[T]) Reset(e *Entry[T], timeout time.Duration) bool {
	now, due := t.ticks(timeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.wheel.Skip(now)
	if !t.mu.wheel.Reset(e, due) {
		return false
	}
	t.wakeEarlierLocked(due)
	return true
}

// Remove removes the entry e if it is pending, and reports whether it was pending. If e was not
// pending, the goroutine may be firing e at this moment. Remove does not wake the goroutine, which
// may therefore wake later and find no due entry.
func (t *Timer[T]) Remove(e *Entry[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wheel.Remove(e)
}

// Stats returns the current counters.
func (t *Timer[T]) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Pending: t.mu.wheel.Len(), Wakeups: t.wakeups.Load(),
		Panics: t.guard.panics.Load()}
}

// Close makes the goroutine fire all pending entries at once, and returns when the goroutine has
// ended. fire must not call Close.
func (t *Timer[T]) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.poke()
	t.mu.Unlock()
	<-t.joined
}

// wakeEarlierLocked wakes the goroutine if the tick due is before wakeAt. No wake-up is lost: the
// goroutine sets wakeAt before it sleeps, and the channel wake buffers the value until the
// goroutine receives it.
func (t *Timer[T]) wakeEarlierLocked(due int64) {
	if due < t.mu.wakeAt {
		t.mu.wakeAt = due // so that entries that are due later do not call poke again
		t.poke()
	}
}

// poke wakes the goroutine. If the goroutine is not sleeping, its next sleep ends at once. poke
// does not block, so a caller may hold the lock.
func (t *Timer[T]) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run is the timer's goroutine. It fires due entries without holding the lock. Then it sleeps until
// the next bucket in use begins or poke is called. If no entry is pending, it sleeps until poke is
// called, without an alarm.
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
			due[i] = nil // release the operation to the garbage collector
		}
		if len(due) > 0 {
			continue // while fire was called, more entries may have become due
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

// call calls fire and recovers its panics.
func (t *Timer[T]) call(e *Entry[T]) {
	defer t.guard.recoverPanic()
	t.fire(e.Value)
}

// advance returns the due entries, or all entries if the timer is closed. It also returns the time
// until the next bucket in use begins, or MaxInt64 if no entry is pending.
func (t *Timer[T]) advance(due []*Entry[T]) (_ []*Entry[T], sleep time.Duration, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	elapsed := time.Since(t.start)
	now := int64(elapsed / t.opts.Tick)
	if t.mu.closed {
		now = math.MaxInt64
	}
	due = t.mu.wheel.Advance(now, due)
	next, some := t.mu.wheel.Next()
	t.mu.wakeAt = next
	if !some || next > math.MaxInt64/int64(t.opts.Tick) {
		return due, math.MaxInt64, t.mu.closed
	}
	return due, time.Duration(next)*t.opts.Tick - elapsed, t.mu.closed
}

// ticks returns the current tick, and the due tick for a timeout that begins now: the first tick
// that does not begin before the timeout has passed.
func (t *Timer[T]) ticks(timeout time.Duration) (now, due int64) {
	elapsed := time.Since(t.start)
	now = int64(elapsed / t.opts.Tick)
	if timeout > math.MaxInt64-elapsed-t.opts.Tick {
		return now, math.MaxInt64
	}
	return now, int64((elapsed + max(timeout, 0) + t.opts.Tick - 1) / t.opts.Tick)
}
