package timer

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Purgatory is a set of delayed operations. An operation waits until an event on one of its keys
// completes it, or its timeout expires it.
type Purgatory[K comparable] struct {
	timer *Timer[*item[K]]
	// immediate counts the operations that ended within the call of Wait.
	immediate struct{ completed, expired atomic.Int64 }

	// This state is guarded by the timer's lock, so that adding or removing an operation acquires only
	// one lock.
	lists watchLists[K]
	// count contains numbers of items since the start. It excludes operations counted in immediate.
	count struct{ admitted, completed, expired int64 }
}

// Options configures a Purgatory.
type Options struct {
	Operation string                // value of the metric label "operation", such as produce or fetch
	Tick      time.Duration         // resolution of timeouts; default 1 ms
	Buckets   int                   // number of buckets per level of the timing wheel; default 20
	Registry  prometheus.Registerer // registry for the purgatory's metrics; may be nil
	Logger    *slog.Logger          // logger for panics of operations; default slog.Default()
}

// item is an operation in the purgatory: its state, its timeout and its watch list entries.
type item[K comparable] struct {
	waiter
	entry  Entry[*item[K]]
	links  []link[K]            // the item's entries in the watch lists
	inline [inlineLinks]link[K] // storage of links, if the links fit
}

// inlineLinks is the largest number of keys that an operation can watch without a second
// allocation. Three keys suffice for most requests, and make an item 192 bytes long, which is a
// size class of Go's allocator.
const inlineLinks = 3

// Waiting refers to an operation that was passed to Wait. The zero value refers to no operation.
type Waiting[K comparable] struct {
	purgatory *Purgatory[K]
	item      *item[K] // nil if the operation ended without waiting
}

// Cancel expires the operation now, unless the operation has ended. A caller uses it when its
// client has disconnected.
func (w Waiting[K]) Cancel() {
	if w.item != nil {
		w.purgatory.expire(w.item)
	}
}

// Reset sets a new timeout, which begins now, and reports whether the operation was still waiting.
// It has no effect on an operation that has ended or is being expired. If the timeout is <= 0, the
// operation expires at the next tick. Reset does not allocate.
func (w Waiting[K]) Reset(timeout time.Duration) bool {
	return w.item != nil && w.purgatory.timer.Reset(&w.item.entry, timeout)
}

// Check tries to complete this operation, as an event on one of its keys does. Unlike an event, it
// does not check the other operations that watch the key. Check reports whether this call completed
// the operation.
func (w Waiting[K]) Check() bool { return w.item != nil && w.purgatory.check(w.item) }

// NewPurgatory starts a purgatory; Close stops it.
func NewPurgatory[K comparable](opts Options) *Purgatory[K] {
	p := &Purgatory[K]{}
	p.timer = NewTimer(TimerOptions{Tick: opts.Tick, Buckets: opts.Buckets, Logger: opts.Logger},
		p.expire)
	p.register(opts)
	return p
}

// Wait completes op at once if TryComplete returns true. Otherwise op watches the keys until it
// completes, or expires after the timeout. If the timeout is <= 0 or the purgatory is closed, op
// expires at once. Wait does not block. op ends when its TryComplete returns true, or when the
// purgatory calls its Expire. An operation must be passed to Wait only once.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) Waiting[K] {
	if p.timer.guard.tryComplete(op) { // no other goroutine can use op yet
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
	// Check again: an event after the first check and before admit did not reach the operation. Every
	// later event reaches it.
	p.check(it)
	return Waiting[K]{purgatory: p, item: it}
}

// admit adds an item to the wheel and the watch lists. It returns false if the purgatory is closed.
// As soon as the item is in the wheel, another goroutine can end it.
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
			// Another goroutine has ended the item, and may already have removed its links from the lists.
			// Links that are added now would remain there.
			break
		}
	}
	return true
}

// yieldLocked releases and reacquires the lock, to let waiting goroutines acquire it.
func (p *Purgatory[K]) yieldLocked() {
	p.timer.mu.Unlock()
	p.timer.mu.Lock()
}

// Notify tries to complete the operations that watch key. It returns the number of operations that
// it completed.
func (p *Purgatory[K]) Notify(key K) int {
	var few [16]*item[K] // holds the watchers of most keys, so that Notify does not allocate
	count := 0
	for _, it := range p.appendWatchers(few[:0], key) {
		if p.check(it) {
			count++
		}
	}
	return count
}

// appendWatchers appends the items that watch key to dst. The caller checks these items without
// holding the lock, for two reasons: a check can take long, and an item that completes acquires the
// lock to leave the lists.
func (p *Purgatory[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	return p.lists.appendWatchers(dst, key)
}

// Close expires all waiting operations, and returns when the timer's goroutine has ended.
func (p *Purgatory[K]) Close() { p.timer.Close() }

// check tries to complete an operation in this goroutine, and reports whether it completed it.
func (p *Purgatory[K]) check(it *item[K]) bool {
	end := it.check()
	p.account(it, end)
	return end == completed
}

// expire ends an operation after its timeout, or because it was cancelled. It is the timer's
// callback.
func (p *Purgatory[K]) expire(it *item[K]) { p.account(it, it.waiter.expire()) }

// account counts the outcome of an operation that has ended, and removes the operation from the
// wheel and from all lists. Among all calls of check and expire for an operation, exactly one
// returns an ending other than pending, so each operation is counted once.
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

// figures contains the counters of a purgatory.
type figures struct {
	pending int64 // number of waiting operations
	// completed is the number of operations since the start that completed, after an event or without
	// waiting.
	completed int64
	expired   int64 // number of operations since the start that expired, by timeout, Cancel or Close
	watched   int64 // number of current links in watch lists
	purged    int64 // number of links removed since the start
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
