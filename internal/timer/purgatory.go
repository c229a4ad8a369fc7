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

	// Counts since the start. Those who wait and those who end others run on different cores: a cache line each, and none
	// with what both read.
	_     [64]byte
	came  struct{ admitted, completed, expired atomic.Int64 } // items; operations that ended at once, and have none
	_     [64]byte
	ended struct{ completed, expired atomic.Int64 } // items; by an event; by time, Cancel or Close
	_     [64]byte
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
	few     [watchesFew]watch[K] // watches lies here if they fit
}

// watchesFew is how many keys an operation watches without a second allocation: a produce or a fetch of few partitions. Three make
// an item 216 bytes; the allocator has 224.
const watchesFew = 3

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
	p.timer = NewTimer(TimerOptions{Tick: opts.Tick, Buckets: opts.Buckets, Logger: opts.Logger}, p.due)
	p.register(opts)
	return p
}

// Wait completes op at once if it can, else watches keys and gives it until timeout from now; without a timeout (<= 0), or
// once the purgatory is closed, it expires at once. Wait does not block: op says by itself when it has ended. op is waited
// for once only.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) Waiting[K] {
	if p.timer.guard.tryComplete(op) { // nobody else knows op yet
		p.came.completed.Add(1)
		return Waiting[K]{}
	}
	if timeout <= 0 {
		p.timer.guard.expire(op)
		p.came.expired.Add(1)
		return Waiting[K]{}
	}
	it := p.admit(op, keys)
	p.watch(it, timeout, keys)
	return Waiting[K]{purgatory: p, item: it}
}

// admit makes an operation an item that is pending, and not watched yet.
func (p *Purgatory[K]) admit(op Operation, keys []K) *item[K] {
	it := &item[K]{waiter: waiter{op: op, guard: &p.timer.guard}}
	it.entry.Value = it
	if it.watches = it.few[:min(len(keys), len(it.few))]; len(keys) > len(it.few) {
		it.watches = make([]watch[K], len(keys))
	}
	for i, key := range keys {
		it.watches[i].of, it.watches[i].shard = it, p.lists.shard(key)
	}
	p.came.admitted.Add(1)
	return it
}

// watch makes events and time find the item. From the first key on it may end at any moment, by another goroutine.
func (p *Purgatory[K]) watch(it *item[K], timeout time.Duration, keys []K) {
	p.lists.add(it.watches, keys)
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

// expire ends an operation before its time.
func (p *Purgatory[K]) expire(it *item[K]) { p.account(it, it.waiter.expire()) }

// due is the timer's callback: the wheel has let the item go already.
func (p *Purgatory[K]) due(it *item[K]) {
	if p.count(it.waiter.expire()) {
		p.unwatch(it)
	}
}

// account counts an operation's end, and forgets the operation.
func (p *Purgatory[K]) account(it *item[K], end ending) {
	if p.count(end) {
		p.clear(it)
	}
}

// count counts an end, and tells whether it is one. Of an operation's, exactly one caller sees an ending other than pending.
func (p *Purgatory[K]) count(end ending) bool {
	switch end {
	case completed:
		p.ended.completed.Add(1)
	case expired:
		p.ended.expired.Add(1)
	case pending:
		return false
	}
	return true
}

// clear takes an operation that has ended out of the wheel and of every list. It may be called twice, also at the same time.
func (p *Purgatory[K]) clear(it *item[K]) {
	p.timer.Remove(&it.entry)
	p.unwatch(it)
}

// unwatch takes an operation out of every list. It may be called twice, also at the same time.
func (p *Purgatory[K]) unwatch(it *item[K]) {
	p.lists.remove(it.watches)
}

// pending is the number of operations that wait: at least those that do so from the call's begin to its end.
func (p *Purgatory[K]) pending() int64 {
	ended := p.ended.completed.Load() + p.ended.expired.Load() // first: what is admitted meanwhile must not make less than none
	return p.came.admitted.Load() - ended
}

// completed is the number of operations that an event completed, or that never had to wait.
func (p *Purgatory[K]) completed() int64 { return p.came.completed.Load() + p.ended.completed.Load() }

// expired is the number of operations whose time was up, or that were cancelled.
func (p *Purgatory[K]) expired() int64 { return p.came.expired.Load() + p.ended.expired.Load() }

// watched is the number of places in watch lists; purged, that of places given up.
func (p *Purgatory[K]) watched() int64 {
	watched, _ := p.lists.counts()
	return watched
}

func (p *Purgatory[K]) purged() int64 {
	_, purged := p.lists.counts()
	return purged
}
