package timer

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	bucketsDefault = 20 // per level
	bucketsMax     = 64 // bits of level.used
)

// Entry is one timeout. It is embedded in the waiting operation, so adding it allocates nothing.
type Entry[T any] struct {
	Value T // for the caller

	due           int64
	prev, next    *Entry[T]
	level, bucket uint8
	pending       bool
}

// Wheel is a hierarchical timing wheel. Time is counted in ticks from the wheel's start. The zero
// value is ready to use.
//
// With n = Buckets, a bucket of level 0 is one tick wide, one of level 1 n ticks, and one of level
// 2 n² ticks. Levels are created when first used. The buckets of a level are a ring: when now
// leaves a bucket, the bucket is reused for the time n buckets later. An entry is in the lowest
// level whose ring contains its due tick. When now reaches a bucket of level 0, its entries are
// due; when it reaches one of a higher level, its entries move to lower levels. Therefore Add and
// Reset take O(levels), Remove takes O(1), an entry moves down at most levels-1 times, and every
// entry is due in its exact tick.
//
// Invariants, for each pending entry e in level l: now < e.due; 0 < e.due/l.width - l.position < n.
// So a bucket never holds entries of two rounds, and the bucket at l.position is empty.
type Wheel[T any] struct {
	// Buckets per level, 2 to 64; 0 means 20. It must not change after the first Add.
	Buckets int

	now    int64 // in ticks; never decreases
	count  int   // of pending entries
	levels []level[T]
}

// level is one ring of buckets.
type level[T any] struct {
	width    int64 // ticks of a bucket
	position int64 // now / width
	index    int   // position % n: index of the bucket that contains now
	until    int64 // last tick of the current bucket
	// last tick of the ring, which is the last tick of bucket position+n-1; at most MaxInt64
	reach int64
	used  uint64 // bit b is set <=> heads[b] != nil
	heads []*Entry[T]
}

// Len returns the number of pending entries.
func (w *Wheel[T]) Len() int { return w.count }

// Add schedules e for a tick; an entry due at or before now is due in the next tick. e must not be
// pending, and now must be below MaxInt64.
func (w *Wheel[T]) Add(e *Entry[T], due int64) {
	if e.pending {
		panic("timer: entry added twice")
	}
	e.due = w.notBeforeNext(due)
	e.pending = true
	w.count++
	w.link(e)
}

// Remove removes e, and reports whether it was pending.
func (w *Wheel[T]) Remove(e *Entry[T]) bool {
	if !e.pending {
		return false
	}
	w.unlink(e)
	e.pending = false
	w.count--
	return true
}

// Reset moves a pending e to another tick, and reports whether it was pending. An entry that was
// due or removed is not scheduled again.
func (w *Wheel[T]) Reset(e *Entry[T], due int64) bool {
	if !e.pending {
		return false
	}
	due = w.notBeforeNext(due)
	w.unlink(e)
	e.due = due
	w.link(e)
	return true
}

// notBeforeNext returns due, or the next tick if due has passed.
func (w *Wheel[T]) notBeforeNext(due int64) int64 {
	if w.now == math.MaxInt64 {
		panic("timer: entry added after the last tick")
	}
	return max(due, w.now+1)
}

// Next returns the first tick of the next bucket that is not empty, which is after now. Advance has
// no effect before it. If nothing is pending, ok is false and tick is MaxInt64. Next reads one word
// per level.
func (w *Wheel[T]) Next() (tick int64, ok bool) {
	_, tick = w.first()
	return tick, w.count > 0
}

// Advance moves the clock to now, and appends the entries that are due to due, in the order of
// their ticks. It ignores times before the current one. It visits buckets and not ticks, so idle
// time costs nothing.
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

// Skip moves the clock to now, but not into a bucket that is not empty. With a current clock an
// added entry is in a lower level, and moves down less often. A clock that lags is correct as well.
func (w *Wheel[T]) Skip(now int64) {
	if now <= w.now {
		return
	}
	if next, some := w.Next(); some {
		now = min(now, next-1)
	}
	w.moveTo(now)
}

// first returns the bucket that begins first. Of two that begin together it returns the higher
// level, whose entries may belong into the lower level or be due. Without entries it returns nil
// and MaxInt64.
func (w *Wheel[T]) first() (*level[T], int64) {
	var found *level[T]
	begin := int64(math.MaxInt64)
	for i := range w.levels {
		l := &w.levels[i]
		if l.used == 0 {
			continue
		}
		// Rotate the ring so that bit 0 is the bucket of now. Where a bit appears twice, its lower
		// copy is the correct one.
		rotated := l.used>>l.index | l.used<<(len(l.heads)-l.index)
		if b := (l.position + int64(bits.TrailingZeros64(rotated))) * l.width; b <= begin {
			found, begin = l, b
		}
	}
	return found, begin
}

// empty removes all entries from the current bucket of a level. The caller has moved the clock to
// the first tick of this bucket: entries of this tick are appended to due, the others move to lower
// levels.
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

// moveTo sets the clock. The buckets that it passes must be empty.
func (w *Wheel[T]) moveTo(now int64) {
	if now <= w.now {
		return
	}
	w.now = now
	for i := range w.levels {
		l := &w.levels[i]
		if now <= l.until {
			return // buckets of higher levels end no earlier
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

// lastTick returns the last tick of the bucket that is the given number of buckets after that of
// now, at most MaxInt64.
func (l *level[T]) lastTick(buckets int64) int64 {
	if l.position >= math.MaxInt64/l.width-buckets {
		return math.MaxInt64
	}
	return (l.position+buckets+1)*l.width - 1
}

// link adds e to the lowest level whose ring contains its due tick, which is after now.
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
	// due is less than one round after now, so the index needs no second division.
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

// unlink removes e from its bucket.
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

// addLevel adds a level above the existing ones. It is only called if their rings end before
// MaxInt64, so the width does not overflow.
func (w *Wheel[T]) addLevel() {
	buckets := w.Buckets
	if buckets == 0 {
		buckets = bucketsDefault
	}
	if buckets < 2 || buckets > bucketsMax {
		panic(fmt.Sprintf("timer: wheel with %d buckets per level; must be 2 to %d", buckets,
			bucketsMax))
	}
	l := level[T]{width: 1, heads: make([]*Entry[T], buckets)}
	if top := len(w.levels); top > 0 {
		l.width = w.levels[top-1].width * int64(buckets)
	}
	l.moveTo(w.now)
	w.levels = append(w.levels, l)
}
