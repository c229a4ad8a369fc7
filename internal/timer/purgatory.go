package timer

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Purgatory holds operations until an event on one of their keys, or time, completes them. Each
// completes exactly once.
type Purgatory[K comparable] struct {
	timer *Timer[*item[K]]
	// operations that ended at once, and never waited
	atOnce struct{ completed, expired atomic.Int64 }

	// Guarded by the timer's lock: an operation comes and goes under one lock, whatever the number
	// of its keys.
	lists watchLists[K]
	count struct{ admitted, completed, expired int64 } // of items, since the start
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
	entry  Entry[*item[K]]
	places []place[K]          // in lists
	few    [placesFew]place[K] // places lies here if they fit
}

// placesFew is how many keys an operation watches without a second allocation: a produce or a fetch
// of few partitions. Three make an item 192 bytes, one of the allocator's classes.
const placesFew = 3

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

// Reset gives the operation another timeout from now, in place of that it had, and tells whether it
// still had to wait for one. It keeps its places in the lists and allocates nothing. A timeout <= 0
// is over at the next tick.
func (w Waiting[K]) Reset(timeout time.Duration) bool {
	return w.item != nil && w.purgatory.timer.Reset(&w.item.entry, timeout)
}

// Check lets the operation alone look again, as an event on one of its keys would, and tells
// whether this call completed it.
func (w Waiting[K]) Check() bool { return w.item != nil && w.purgatory.look(w.item) }

// NewPurgatory starts a purgatory; Close stops it.
func NewPurgatory[K comparable](opts Options) *Purgatory[K] {
	p := &Purgatory[K]{}
	p.timer = NewTimer(TimerOptions{Tick: opts.Tick, Buckets: opts.Buckets, Logger: opts.Logger},
		p.expire)
	p.register(opts)
	return p
}

// Wait completes op at once if it can, else watches keys and gives it until timeout from now;
// without a timeout (<= 0), or once the purgatory is closed, it expires at once. Wait does not
// block: op says by itself when it has ended. op is waited for once only.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) Waiting[K] {
	if p.timer.guard.tryComplete(op) { // nobody else knows op yet
		p.atOnce.completed.Add(1)
		return Waiting[K]{}
	}
	it := &item[K]{waiter: waiter{op: op, guard: &p.timer.guard}}
	it.entry.Value = it
	if it.places = it.few[:0]; len(keys) > len(it.few) {
		it.places = make([]place[K], 0, len(keys))
	}
	if timeout <= 0 || !p.admit(it, timeout, keys) {
		p.timer.guard.expire(op)
		p.atOnce.expired.Add(1)
		return Waiting[K]{}
	}
	// An event between the first look and the watching woke nobody: look again, now that every
	// later one will find us.
	p.look(it)
	return Waiting[K]{purgatory: p, item: it}
}

// admit makes time and events find an item. From then on it may end at any moment, by another
// goroutine. It returns false if the purgatory is closed.
func (p *Purgatory[K]) admit(it *item[K], timeout time.Duration, keys []K) bool {
	now, due := p.timer.ticks(timeout)
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	if !p.timer.addLocked(&it.entry, now, due) {
		return false
	}
	p.count.admitted++
	for keys = p.lists.add(it, keys); len(keys) > 0; keys = p.lists.add(it, keys) {
		p.letOthersInLocked()
		if it.ended() {
			// its end may have taken it out of the lists already, and would not come again for what
			// is added now
			break
		}
	}
	return true
}

// letOthersInLocked gives the lock away for a moment.
func (p *Purgatory[K]) letOthersInLocked() {
	p.timer.mu.Unlock()
	p.timer.mu.Lock()
}

// Notify lets the operations that watch key look again, and returns how many completed.
func (p *Purgatory[K]) Notify(key K) int {
	var few [16]*item[K] // most keys have few watchers, and then nothing is allocated
	count := 0
	for _, it := range p.appendWatchers(few[:0], key) {
		if p.look(it) {
			count++
		}
	}
	return count
}

// appendWatchers appends those who watch key. It copies, so that they are looked at without the
// lock: a look may take long, and the one that completes goes back to this list to leave it.
func (p *Purgatory[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	return p.lists.appendWatchers(dst, key)
}

// Close expires what still waits and joins the goroutine.
func (p *Purgatory[K]) Close() { p.timer.Close() }

// look lets an operation try to complete in this goroutine, and tells whether this call ended it
// so.
func (p *Purgatory[K]) look(it *item[K]) bool {
	end := it.look()
	p.account(it, end)
	return end == completed
}

// expire ends an operation because its time is up, or before: it is the timer's callback, too.
func (p *Purgatory[K]) expire(it *item[K]) { p.account(it, it.waiter.expire()) }

// account counts an operation's end and takes it out of the wheel and of every list. Of an
// operation's calls, exactly one is told an end other than pending.
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
		p.letOthersInLocked()
	}
}

// Figures of a purgatory.
type figures struct {
	pending   int64 // operations that wait
	completed int64 // since the start, by an event, or at once
	expired   int64 // since the start, by time, Cancel or Close
	watched   int64 // places in watch lists
	purged    int64 // places given up since the start
}

func (p *Purgatory[K]) figures() figures {
	p.timer.mu.Lock()
	defer p.timer.mu.Unlock()
	return figures{
		pending:   p.count.admitted - p.count.completed - p.count.expired,
		completed: p.count.completed + p.atOnce.completed.Load(),
		expired:   p.count.expired + p.atOnce.expired.Load(),
		watched:   p.lists.places,
		purged:    p.lists.purged,
	}
}
