package timer

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Purgatory holds delayed operations until an event on one of their keys completes them, or their
// timeout expires them.
type Purgatory[K comparable] struct {
	timer *Timer[*item[K]]
	// operations that ended without waiting
	immediate struct{ completed, expired atomic.Int64 }

	// Guarded by the timer's lock, so that adding and removing an operation takes one lock.
	lists watchLists[K]
	count struct{ admitted, completed, expired int64 } // items since the start
}

// Options configures a Purgatory.
type Options struct {
	Operation string                // metric label: produce, fetch, ...
	Tick      time.Duration         // resolution of timeouts; default 1 ms
	Buckets   int                   // per level of the timing wheel; default 20
	Registry  prometheus.Registerer // for its metrics; may be nil
	Logger    *slog.Logger          // for panics of operations; default slog.Default()
}

// item is an operation in the purgatory: its state, its timeout and its watch list entries.
type item[K comparable] struct {
	waiter
	entry  Entry[*item[K]]
	links  []link[K]            // in lists
	inline [inlineLinks]link[K] // storage of links if they fit
}

// inlineLinks is the number of keys that an operation watches without a second allocation, enough
// for most requests. With three an item takes 192 bytes, a size class of the allocator.
const inlineLinks = 3

// Waiting is an operation that was passed to Wait.
type Waiting[K comparable] struct {
	purgatory *Purgatory[K]
	item      *item[K] // nil if the operation ended without waiting
}

// Cancel expires the operation now, unless it has ended. Callers use it when their client has gone.
func (w Waiting[K]) Cancel() {
	if w.item != nil {
		w.purgatory.expire(w.item)
	}
}

// Reset replaces the operation's timeout by one from now, and reports whether the operation was
// still waiting for its timeout. It does not allocate. A timeout <= 0 expires at the next tick.
func (w Waiting[K]) Reset(timeout time.Duration) bool {
	return w.item != nil && w.purgatory.timer.Reset(&w.item.entry, timeout)
}

// Check tries to complete only this operation, as an event on one of its keys would, and reports
// whether this call completed it.
func (w Waiting[K]) Check() bool { return w.item != nil && w.purgatory.check(w.item) }

// NewPurgatory starts a purgatory; Close stops it.
func NewPurgatory[K comparable](opts Options) *Purgatory[K] {
	p := &Purgatory[K]{}
	p.timer = NewTimer(TimerOptions{Tick: opts.Tick, Buckets: opts.Buckets, Logger: opts.Logger},
		p.expire)
	p.register(opts)
	return p
}

// Wait completes op at once if it can. Otherwise op watches the keys and expires after the timeout;
// if the timeout is <= 0 or the purgatory is closed, it expires at once. Wait does not block: the
// purgatory reports the end to op by calling TryComplete or Expire. An operation must be passed to
// Wait only once.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) Waiting[K] {
	if p.timer.guard.tryComplete(op) { // no other goroutine has op yet
		p.immediate.completed.Add(1)
		return Waiting[K]{}
	}
	it := &item[K]{waiter: waiter{op: op, guard: &p.timer.guard}}
	it.entry.Value = it
	if it.links = it.inline[:0]; len(keys) > len(it.inline) {
		it.links = make([]link[K], 0, len(keys))
	}
	if timeout <= 0 || !p.admit(it, timeout, keys) {
		p.timer.guard.expire(op)
		p.immediate.expired.Add(1)
		return Waiting[K]{}
	}
	// An event between the first check and the watching did not reach the operation: check again,
	// now that every later event does.
	p.check(it)
	return Waiting[K]{purgatory: p, item: it}
}

// admit adds an item to the wheel and the watch lists. From then on another goroutine may end it at
// any time. It returns false if the purgatory is closed.
func (p *Purgatory[K]) admit(it *item[K], timeout time.Duration, keys []K) bool {
	now, due := p.timer.ticks(timeout)
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	if !p.timer.addLocked(&it.entry, now, due) {
		return false
	}
	p.count.admitted++
	for keys = p.lists.add(it, keys); len(keys) > 0; keys = p.lists.add(it, keys) {
		p.yieldLocked()
		if it.ended() {
			// the call that ended the item may have removed it from the lists already, and would
			// not remove links that are added now
			break
		}
	}
	return true
}

// yieldLocked releases and reacquires the lock, so that other goroutines can take it.
func (p *Purgatory[K]) yieldLocked() {
	p.timer.mu.Unlock()
	p.timer.mu.Lock()
}

// Notify tries to complete the operations that watch key, and returns how many completed.
func (p *Purgatory[K]) Notify(key K) int {
	var few [16]*item[K] // most keys have few watchers, and then nothing is allocated
	count := 0
	for _, it := range p.appendWatchers(few[:0], key) {
		if p.check(it) {
			count++
		}
	}
	return count
}

// appendWatchers appends the items that watch key. The copy allows checking them without the lock:
// a check may take long, and a completed operation takes the lock to leave the list.
func (p *Purgatory[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	return p.lists.appendWatchers(dst, key)
}

// Close expires all waiting operations and joins the goroutine.
func (p *Purgatory[K]) Close() { p.timer.Close() }

// check tries to complete an operation in this goroutine, and reports whether this call completed
// it.
func (p *Purgatory[K]) check(it *item[K]) bool {
	end := it.check()
	p.account(it, end)
	return end == completed
}

// expire expires an operation, for its timeout or a cancellation. It is also the timer's callback.
func (p *Purgatory[K]) expire(it *item[K]) { p.account(it, it.waiter.expire()) }

// account counts an operation's end, and removes the operation from the wheel and from every list.
// Of all calls that check or expire an operation, exactly one has an end other than pending.
func (p *Purgatory[K]) account(it *item[K], end ending) {
	if end == pending {
		return
	}
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	p.timer.mu.wheel.Remove(&it.entry)
	if end == completed {
		p.count.completed++
	} else {
		p.count.expired++
	}
	for p.lists.remove(it) {
		p.yieldLocked()
	}
}

// figures are the counters of a purgatory.
type figures struct {
	pending   int64 // waiting operations
	completed int64 // since the start, by an event or without waiting
	expired   int64 // since the start, by timeout, Cancel or Close
	watched   int64 // links in watch lists
	purged    int64 // links removed since the start
}

func (p *Purgatory[K]) figures() figures {
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	return figures{
		pending:   p.count.admitted - p.count.completed - p.count.expired,
		completed: p.count.completed + p.immediate.completed.Load(),
		expired:   p.count.expired + p.immediate.expired.Load(),
		watched:   p.lists.links,
		purged:    p.lists.purged,
	}
}
