package timer

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	bucketsStandard = 20 // a level
	bucketsMax      = 64 // a word holds which buckets of a level are used
)

// Entry is one timeout. It lives inside what waits; adding it to a wheel allocates nothing.
type Entry[T any] struct {
	Value T // the owner's

	due           int64
	prev, next    *Entry[T]
	level, bucket uint8
	pending       bool
}

// Wheel is a hierarchical timing wheel. Time is counted in ticks from the wheel's start. The zero
// value is ready.
//
// Level 0 has a bucket a tick, level 1 a bucket for n ticks, level 2 one for n², n being Buckets;
// levels are made when first used. The buckets of a level are a ring: as now goes on, the bucket it
// leaves is free for the time n buckets on. An entry sits in the lowest level whose ring reaches
// its due tick. When now reaches a bucket of level 0, its entries are due; when it reaches one of a
// higher level, its entries move to lower levels. Hence Add, Remove and Reset are O(levels), O(1)
// and O(levels), an entry moves down at most levels-1 times, and none is due early or late.
//
// Invariants, for each pending entry e in level l: now < e.due; 0 < e.due/l.width - l.position < n.
// So a bucket never holds entries of two rounds, and the bucket at l.position is empty.
type Wheel[T any] struct {
	// Buckets of a level, 2 to 64; 0 means 20. Not to be changed once an entry was added.
	Buckets int

	now    int64 // ticks; never falls
	count  int   // of pending entries
	levels []level[T]
}

// level is one ring of buckets.
type level[T any] struct {
	width    int64 // ticks of a bucket
	position int64 // now / width
	index    int   // position % n: of the bucket now lies in
	until    int64 // the last tick of position
	// the last tick for which the ring has a bucket: that of position+n-1, at most MaxInt64
	reach int64
	used  uint64 // bit b is set <=> heads[b] != nil
	heads []*Entry[T]
}

// Len is the number of pending entries.
func (w *Wheel[T]) Len() int { return w.count }

// Add makes e due at a tick. What is due at or before now comes with the next tick. e must not be
// pending, and the clock not at MaxInt64.
func (w *Wheel[T]) Add(e *Entry[T], due int64) {
	if e.pending {
		panic("timer: entry added twice")
	}
	e.due = w.toCome(due)
	e.pending = true
	w.count++
	w.link(e)
}

// Remove takes e out, and tells whether it was pending.
func (w *Wheel[T]) Remove(e *Entry[T]) bool {
	if !e.pending {
		return false
	}
	w.unlink(e)
	e.pending = false
	w.count--
	return true
}

// Reset makes a pending e due at another tick, and tells whether it was pending: what came due or
// was removed stays so.
func (w *Wheel[T]) Reset(e *Entry[T], due int64) bool {
	if !e.pending {
		return false
	}
	due = w.toCome(due)
	w.unlink(e)
	e.due = due
	w.link(e)
	return true
}

// toCome is due, or the next tick if due has passed.
func (w *Wheel[T]) toCome(due int64) int64 {
	if w.now == math.MaxInt64 {
		panic("timer: entry added after the last tick")
	}
	return max(due, w.now+1)
}

// Next returns the tick at which the next bucket that is not empty begins: Advance has nothing to
// do before it. It is after now. If nothing is pending, ok is false and tick MaxInt64. It looks at
// one word a level.
func (w *Wheel[T]) Next() (tick int64, ok bool) {
	_, tick = w.first()
	return tick, w.count > 0
}

// Advance moves the clock to now, and appends the entries that are due, in the order of their
// ticks, to due. Time that goes backwards is ignored. It goes from bucket to bucket, not from tick
// to tick: idle time costs nothing.
func (w *Wheel[T]) Advance(now int64, due []*Entry[T]) []*Entry[T] {
	for w.count > 0 {
		lowest, begin := w.first()
		if begin > now {
			break
		}
		w.moveTo(begin)
		due = w.empty(lowest, due)
	}
	w.moveTo(now)
	return due
}

// Skip moves the clock to now, but not as far as a bucket that is not empty. With the clock up to
// date an Add finds a lower level and is moved down less often. A clock that is behind is not
// wrong.
func (w *Wheel[T]) Skip(now int64) {
	if now <= w.now {
		return
	}
	if next, some := w.Next(); some {
		now = min(now, next-1)
	}
	w.moveTo(now)
}

// first finds the bucket that begins first; the higher level of two, whose entries may be due in
// the lower one's bucket, or at once. Without entries it returns nil and MaxInt64.
func (w *Wheel[T]) first() (*level[T], int64) {
	var found *level[T]
	begin := int64(math.MaxInt64)
	for i := range w.levels {
		l := &w.levels[i]
		if l.used == 0 {
			continue
		}
		// The ring turned so that bit 0 is now's bucket. Bits that are shifted out to the left come
		// back at their right place below; those that are there twice have their lower copy at the
		// right one.
		turned := l.used>>l.index | l.used<<(len(l.heads)-l.index)
		if b := (l.position + int64(bits.TrailingZeros64(turned))) * l.width; b <= begin {
			found, begin = l, b
		}
	}
	return found, begin
}

// empty takes the bucket of a level in which now lies, after moveTo its first tick: its entries are
// due, or go to lower levels.
func (w *Wheel[T]) empty(l *level[T], due []*Entry[T]) []*Entry[T] {
	e := l.heads[l.index]
	l.heads[l.index] = nil
	l.used &^= 1 << l.index
	for e != nil {
		next := e.next
		e.prev, e.next = nil, nil
		if e.due == w.now {
			e.pending = false
			w.count--
			due = append(due, e)
		} else {
			w.link(e)
		}
		e = next
	}
	return due
}

// moveTo sets the clock. No bucket that is passed over may hold entries.
func (w *Wheel[T]) moveTo(now int64) {
	if now <= w.now {
		return
	}
	w.now = now
	for i := range w.levels {
		l := &w.levels[i]
		if now <= l.until {
			return // the levels above have wider buckets, which end no earlier
		}
		l.moveTo(now)
	}
}

func (l *level[T]) moveTo(now int64) {
	buckets := int64(len(l.heads))
	l.position = now / l.width
	l.index = int(l.position % buckets)
	l.until = l.lastTick(0)
	l.reach = l.lastTick(buckets - 1)
}

// lastTick is the last tick of the bucket that comes so many buckets after now's, at most MaxInt64.
func (l *level[T]) lastTick(buckets int64) int64 {
	if l.position >= math.MaxInt64/l.width-buckets {
		return math.MaxInt64
	}
	return (l.position+buckets+1)*l.width - 1
}

// link puts e in the lowest level that reaches its due tick, which is after now.
func (w *Wheel[T]) link(e *Entry[T]) {
	i := 0
	for ; ; i++ {
		if i == len(w.levels) {
			w.addLevel()
		}
		if e.due <= w.levels[i].reach {
			break
		}
	}
	l := &w.levels[i]
	// due lies less than a round after now, so no second division is needed to find the bucket's
	// place in the ring.
	bucket := l.index + int(e.due/l.width-l.position)
	if bucket >= len(l.heads) {
		bucket -= len(l.heads)
	}
	head := &l.heads[bucket]
	if e.next = *head; e.next != nil {
		e.next.prev = e
	}
	*head = e
	e.level, e.bucket = uint8(i), uint8(bucket)
	l.used |= 1 << bucket
}

// unlink takes e out of its bucket; the bucket is free if it was the last.
func (w *Wheel[T]) unlink(e *Entry[T]) {
	if e.next != nil {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l := &w.levels[e.level]
		l.heads[e.bucket] = e.next
		if e.next == nil {
			l.used &^= 1 << e.bucket
		}
	}
	e.prev, e.next = nil, nil
}

// addLevel makes the overflow wheel of those that are there. There is need for it only if their
// reach ends before MaxInt64, so its width fits.
func (w *Wheel[T]) addLevel() {
	buckets := w.Buckets
	if buckets == 0 {
		buckets = bucketsStandard
	}
	if buckets < 2 || buckets > bucketsMax {
		panic(fmt.Sprintf("timer: a wheel of %d buckets a level; 2 to %d are possible", buckets,
			bucketsMax))
	}
	l := level[T]{width: 1, heads: make([]*Entry[T], buckets)}
	if top := len(w.levels); top > 0 {
		l.width = w.levels[top-1].width * int64(buckets)
	}
	l.moveTo(w.now)
	w.levels = append(w.levels, l)
}
