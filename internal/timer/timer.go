package timer

import (
	"math"
	"sync"
	"time"
)

// Timer calls back when entries are due: a Wheel with a lock, a clock and the goroutine that sleeps.
type Timer[T any] struct {
	tick  time.Duration // > 0
	start time.Time     // tick 0; its monotonic clock, so that nobody who sets the clock makes entries early or late
	fire  func(T)

	wake   chan struct{} // holds one: an entry was added that is due before the goroutine wakes
	joined chan struct{}

	mu struct {
		sync.Mutex
		wheel  Wheel[T]
		wakeAt int64 // the tick the goroutine sleeps until
		closed bool
	}
}

// NewTimer starts a timer with a resolution of tick. fire is called from the timer's one goroutine, without a lock, and must
// not block.
func NewTimer[T any](tick time.Duration, fire func(T)) *Timer[T] {
	t := &Timer[T]{tick: tick, start: time.Now(), fire: fire, wake: make(chan struct{}, 1), joined: make(chan struct{})}
	go t.run()
	return t
}

// Add makes e due after a timeout: never earlier, and about a tick later at most. It returns false when the timer is closed.
func (t *Timer[T]) Add(e *Entry[T], timeout time.Duration) bool {
	due := t.dueTick(timeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return false
	}
	t.mu.wheel.Add(e, due)
	// Between the goroutine's look at the wheel and its sleep wakeAt is already set, and wake keeps the message: not lost.
	if due < t.mu.wakeAt {
		t.poke()
	}
	return true
}

// Cancel takes e out, and tells whether it was still to come. False may mean that fire is being called with it at this
// moment.
func (t *Timer[T]) Cancel(e *Entry[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wheel.Cancel(e)
}

// Len is the number of entries still to come.
func (t *Timer[T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wheel.Len()
}

// Close fires what is still to come, and joins the goroutine.
func (t *Timer[T]) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.poke()
	t.mu.Unlock()
	<-t.joined
}

// poke wakes the goroutine, or leaves the message for its next sleep. It never blocks, so it may be called under the lock.
func (t *Timer[T]) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine: it fires what is due, without the lock, and sleeps until the next bucket or a poke.
func (t *Timer[T]) run() {
	defer close(t.joined)
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	var due []*Entry[T]
	for {
		var closed bool
		due, closed = t.advance(due[:0])
		for i, e := range due {
			t.fire(e.Value)
			due[i] = nil // a big burst must not keep its operations alive
		}
		if len(due) > 0 {
			continue // firing took time, and more may be due by now
		}
		if closed {
			return
		}
		alarm.Reset(t.untilWake())
		select {
		case <-alarm.C:
		case <-t.wake:
		}
	}
}

// advance takes what is due now; everything, once the timer is closed.
func (t *Timer[T]) advance(due []*Entry[T]) ([]*Entry[T], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := int64(time.Since(t.start) / t.tick)
	if t.mu.closed {
		now = math.MaxInt64
	}
	due = t.mu.wheel.Advance(now, due)
	next, some := t.mu.wheel.Next()
	if !some {
		next = math.MaxInt64
	}
	t.mu.wakeAt = next
	return due, t.mu.closed
}

// untilWake is how long to sleep; when nothing is pending, a time that no program runs.
func (t *Timer[T]) untilWake() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.wakeAt > math.MaxInt64/int64(t.tick) {
		return math.MaxInt64
	}
	return time.Duration(t.mu.wakeAt)*t.tick - time.Since(t.start)
}

// dueTick is the first tick that begins after the timeout.
func (t *Timer[T]) dueTick(timeout time.Duration) int64 {
	at := time.Since(t.start)
	if timeout > math.MaxInt64-at-t.tick {
		return math.MaxInt64
	}
	return int64((at + max(timeout, 0) + t.tick - 1) / t.tick)
}
