package purgatory

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/timer"
)

// alarm is what the timers keep in a waiter.
type alarm struct {
	entry timer.Entry[*waiter] // wheel
	timer *time.Timer          // runtimeTimers
	due   time.Duration        // heapTimers: since their start
	index int                  // heapTimers: its place; -1: in none
}

// wheelTimers are the purgatory's own.
type wheelTimers struct{ timer *timer.Timer[*waiter] }

func newWheelTimers() wheelTimers {
	return wheelTimers{timer.NewTimer(timer.TimerOptions{}, (*waiter).expire)}
}

func (t wheelTimers) start(w *waiter, timeout time.Duration) {
	w.clock.entry.Value = w
	t.timer.Add(&w.clock.entry, timeout)
}

func (t wheelTimers) stop(w *waiter) { t.timer.Remove(&w.clock.entry) }
func (t wheelTimers) close()         { t.timer.Close() }

// runtimeTimers give each request a timer of the Go runtime, which calls it in a goroutine of its
// own.
type runtimeTimers struct{}

func (runtimeTimers) start(w *waiter, timeout time.Duration) {
	w.clock.timer = time.AfterFunc(timeout, w.expire)
}

func (runtimeTimers) stop(w *waiter) { w.clock.timer.Stop() }
func (runtimeTimers) close()         {}

// heapTimers are a binary heap under one lock, and a goroutine that sleeps until its root is due.
type heapTimers struct {
	begin  time.Time
	wake   chan struct{} // holds one
	joined chan struct{}

	mu     sync.Mutex
	queue  queue
	wakeAt time.Duration
	closed bool
}

func newHeapTimers() *heapTimers {
	t := &heapTimers{begin: time.Now(), wake: make(chan struct{}, 1), joined: make(chan struct{})}
	go t.run()
	return t
}

func (t *heapTimers) start(w *waiter, timeout time.Duration) {
	w.clock.due = time.Since(t.begin) + timeout
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.queue, w)
	if w.clock.due < t.wakeAt {
		t.wakeAt = w.clock.due
		t.poke()
	}
}

func (t *heapTimers) stop(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.clock.index >= 0 {
		heap.Remove(&t.queue, w.clock.index)
	}
}

func (t *heapTimers) close() {
	t.mu.Lock()
	t.closed = true
	t.poke()
	t.mu.Unlock()
	<-t.joined
}

func (t *heapTimers) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run sleeps a millisecond at least once something is due soon: to the timing wheel's resolution,
// lest it be beaten by the number of its wake-ups alone.
func (t *heapTimers) run() {
	defer close(t.joined)
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		due, sleep, closed := t.take()
		if closed {
			return
		}
		for _, w := range due {
			w.expire()
		}
		alarm.Reset(sleep)
		select {
		case <-alarm.C:
		case <-t.wake:
		}
	}
}

// take removes what is due, and tells how long to sleep: until the first tick of a millisecond at
// which there is more.
func (t *heapTimers) take() (due []*waiter, sleep time.Duration, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.begin)
	for len(t.queue) > 0 && t.queue[0].clock.due <= now {
		due = append(due, heap.Pop(&t.queue).(*waiter))
	}
	t.wakeAt = math.MaxInt64
	if len(t.queue) > 0 {
		t.wakeAt = (t.queue[0].clock.due + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return due, t.wakeAt - now, t.closed
}

// queue implements heap.Interface by due time.
type queue []*waiter

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].clock.due < q[j].clock.due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].clock.index, q[j].clock.index = i, j
}

func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.clock.index = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	w.clock.index = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return w
}
