package timer

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Purgatory holds operations until an event on one of their keys, or time, completes them. Each completes exactly once.
type Purgatory[K comparable] struct {
	lists *watchLists[K]
	timer *Timer[*item[K]]

	pending   atomic.Int64 // items that have not ended
	completed atomic.Int64 // since the start, those included that never had to wait
	expired   atomic.Int64 // by time, Cancel or Close
	purged    atomic.Int64 // places in watch lists that clear gave up
}

// Options of a purgatory.
type Options struct {
	Operation string                // metric label: produce, fetch, ...
	Tick      time.Duration         // resolution of timeouts; default 1 ms
	Buckets   int                   // of a level of the timing wheel; default 20
	Registry  prometheus.Registerer // of its metrics; may be nil
	Logger    *slog.Logger          // of operations that panic; default slog.Default()
}

// item is an operation in the purgatory: its state, its timeout and its places in watch lists.
type item[K comparable] struct {
	waiter
	entry   Entry[*item[K]]
	watches []watch[K]
}

// Waiting is an operation that Wait was given.
type Waiting[K comparable] struct {
	purgatory *Purgatory[K]
	item      *item[K] // nil if the operation ended before it had to wait
}

// Cancel expires the operation now, unless it has ended; its caller went away.
func (w Waiting[K]) Cancel() {
	if w.item != nil {
		w.purgatory.expire(w.item)
	}
}

// Reset gives the operation another timeout from now, in place of that it had, and tells whether it still had to wait for one.
// It keeps its places in the lists and allocates nothing. A timeout <= 0 is over at the next tick.
func (w Waiting[K]) Reset(timeout time.Duration) bool {
	return w.item != nil && w.purgatory.timer.Reset(&w.item.entry, timeout)
}

// Check lets the operation alone look again, as an event on one of its keys would, and tells whether this call completed it.
func (w Waiting[K]) Check() bool { return w.item != nil && w.purgatory.look(w.item) }

// NewPurgatory starts a purgatory; Close stops it.
func NewPurgatory[K comparable](opts Options) *Purgatory[K] {
	p := &Purgatory[K]{lists: newWatchLists[K]()}
	p.timer = NewTimer(TimerOptions{Tick: opts.Tick, Buckets: opts.Buckets, Logger: opts.Logger}, p.expire)
	p.register(opts)
	return p
}

// Wait completes op at once if it can, else watches keys and gives it until timeout from now; without a timeout (<= 0), or
// once the purgatory is closed, it expires at once. Wait does not block: op says by itself when it has ended. op is waited
// for once only.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) Waiting[K] {
	if p.timer.guard.tryComplete(op) { // nobody else knows op yet
		p.completed.Add(1)
		return Waiting[K]{}
	}
	if timeout <= 0 {
		p.timer.guard.expire(op)
		p.expired.Add(1)
		return Waiting[K]{}
	}
	it := p.admit(op, keys)
	p.watch(it, timeout, keys)
	return Waiting[K]{purgatory: p, item: it}
}

// admit makes an operation an item that is pending, and not watched yet.
func (p *Purgatory[K]) admit(op Operation, keys []K) *item[K] {
	it := &item[K]{waiter: waiter{op: op, guard: &p.timer.guard}, watches: make([]watch[K], len(keys))}
	it.entry.Value = it
	for i, key := range keys {
		it.watches[i] = watch[K]{of: it, shard: p.lists.shard(key)}
	}
	p.pending.Add(1)
	return it
}

// watch makes events and time find the item. From the first key on it may end at any moment, by another goroutine.
func (p *Purgatory[K]) watch(it *item[K], timeout time.Duration, keys []K) {
	for i, key := range keys {
		it.watches[i].add(key)
	}
	if !p.timer.Add(&it.entry, timeout) {
		p.expire(it) // closed
	}
	// An event between Wait's look and the watching woke nobody: look again, now that every later one will find us.
	p.look(it)
	if it.ended() {
		// It ended while we were still adding: whoever ended it may have cleared before we added, and our place would stay
		// for ever. Had it not ended by this look, all places are there, and whoever ends it later finds them.
		p.clear(it)
	}
}

// Notify lets the operations that watch key look again, and returns how many completed.
func (p *Purgatory[K]) Notify(key K) int {
	var few [16]*item[K] // most keys have few watchers, and then nothing is allocated
	count := 0
	for _, it := range p.lists.appendWatchers(few[:0], key) {
		if p.look(it) {
			count++
		}
	}
	return count
}

// Close expires what still waits and joins the goroutine.
func (p *Purgatory[K]) Close() { p.timer.Close() }

// look lets an operation try to complete in this goroutine, and tells whether this call ended it so.
func (p *Purgatory[K]) look(it *item[K]) bool {
	end := it.look()
	p.account(it, end)
	return end == completed
}

// expire ends an operation by time; it is the timer's callback too.
func (p *Purgatory[K]) expire(it *item[K]) { p.account(it, it.waiter.expire()) }

// account counts an operation's end, and forgets the operation. Exactly one caller sees an ending other than pending.
func (p *Purgatory[K]) account(it *item[K], end ending) {
	switch end {
	case pending:
		return
	case completed:
		p.completed.Add(1)
	case expired:
		p.expired.Add(1)
	}
	p.pending.Add(-1)
	p.clear(it)
}

// clear takes an operation that has ended out of the wheel and of every list. It may be called twice, also at the same time.
func (p *Purgatory[K]) clear(it *item[K]) {
	p.timer.Remove(&it.entry)
	for i := range it.watches {
		if it.watches[i].remove() {
			p.purged.Add(1)
		}
	}
}
