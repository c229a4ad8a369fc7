package timer

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	bucketsDefault = 20 // number of buckets per level
	bucketsMax     = 64 // number of bits in level.used
)

// Entry is one timeout. The waiting operation embeds it, so adding an entry does not allocate.
type Entry[T any] struct {
	Value T // value passed to the Timer's callback

	due           int64
	prev, next    *Entry[T]
	level, bucket uint8
	pending       bool
}

// Wheel is a hierarchical timing wheel. It measures time in ticks since its start. The zero value
// is ready to use.
//
// If n is Buckets, a bucket of level l spans n^l ticks. A level is created when an entry first
// needs it. The buckets of a level are a ring: when the current time leaves a bucket, the bucket is
// reused for the time n buckets later. An entry is in the lowest level whose ring contains its due
// tick. When the current time reaches a bucket of level 0, the bucket's entries are due. When it
// reaches a bucket of a higher level, the bucket's entries move to lower levels. Therefore Add and
// Reset take O(levels), Remove takes O(1), an entry moves down at most levels-1 times, and every
// entry is due in its exact tick.
//
// Invariants, for each pending entry e in level l: now < e.due; 0 < e.due/l.width - l.position < n.
// So all entries of a bucket belong to the same round of the ring, and the bucket at l.position is
// empty.
type Wheel[T any] struct {
	// Buckets is the number of buckets per level, 2 to 64; 0 means 20. It must not change after the
	// first Add.
	Buckets int

	now    int64 // current tick, which never decreases
	count  int   // number of pending entries
	levels []level[T]
}

// level is one ring of buckets.
type level[T any] struct {
	width    int64 // number of ticks that a bucket spans
	position int64 // now / width
	index    int   // position % n, the index of the bucket that contains now
	until    int64 // last tick of the bucket that contains now
	// reach is the last tick of the ring: the last tick of bucket position+n-1, but at most
	// MaxInt64.
	reach int64
	used  uint64      // bitmap of the buckets in use: bit b is set if and only if heads[b] != nil
	heads []*Entry[T] // first entry of each bucket
}

// Len returns the number of pending entries.
func (w *Wheel[T]) Len() int { return w.count }

// Add schedules the entry e for the tick due. If due is not after the current tick, e is due in the
// next tick. The entry must not be pending, and the current tick must be below MaxInt64.
func (w *Wheel[T]) Add(e *Entry[T], due int64) {
	if e.pending {
		panic("timer: entry added twice")
	}
	e.due = w.notBeforeNext(due)
	e.pending = true
	w.count++
	w.link(e)
}

// Remove removes the entry e if it is pending, and reports whether it was pending.
func (w *Wheel[T]) Remove(e *Entry[T]) bool {
	if !e.pending {
		return false
	}
	w.unlink(e)
	e.pending = false
	w.count--
	return true
}

// Reset moves the entry e to the tick due if e is pending, and reports whether e was pending. It
// does not schedule an entry that is not pending.
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

// notBeforeNext returns the later of the tick due and the next tick.
func (w *Wheel[T]) notBeforeNext(due int64) int64 {
	if w.now == math.MaxInt64 {
		panic("timer: entry added after the last tick")
	}
	return max(due, w.now+1)
}

// Next returns the first tick of the next bucket that is not empty. This tick is after the current
// one, and no entry is due before it. If no entry is pending, ok is false and tick is MaxInt64.
// Next reads one word per level.
func (w *Wheel[T]) Next() (tick int64, ok bool) {
	_, tick = w.first()
	return tick, w.count > 0
}

// Advance sets the current tick to now. It appends the entries that are due by now to the slice
// due, in the order of their ticks, and returns the slice. If now is before the current tick,
// Advance has no effect. It visits only buckets in use, so a long time without entries costs
// nothing.
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

// Skip sets the current tick to now, but at most to the tick before the next bucket that is not
// empty. The wheel is also correct without Skip. But if the current tick lags behind, an added
// entry is put in a higher level than necessary, and moves down more often.
func (w *Wheel[T]) Skip(now int64) {
	if now <= w.now {
		return
	}
	if next, some := w.Next(); some {
		now = min(now, next-1)
	}
	w.moveTo(now)
}

// first returns the bucket that begins next, as its level and its first tick. If two buckets begin
// in the same tick, it returns the one of the higher level, because its entries may have to move to
// the lower level first. If no entry is pending, it returns nil and MaxInt64.
func (w *Wheel[T]) first() (*level[T], int64) {
	var found *level[T]
	begin := int64(math.MaxInt64)
	for i := range w.levels {
		l := &w.levels[i]
		if l.used == 0 {
			continue
		}
		// Rotate the bitmap, so that bit 0 is the bucket of the current tick. A bit of l.used can appear
		// twice in the result. TrailingZeros64 finds its lower position, which is the correct one.
		rotated := l.used>>l.index | l.used<<(len(l.heads)-l.index)
		if b := (l.position + int64(bits.TrailingZeros64(rotated))) * l.width; b <= begin {
			found, begin = l, b
		}
	}
	return found, begin
}

// empty removes all entries from a level's current bucket. The current tick must be the first tick
// of this bucket. empty appends entries that are due in this tick to the slice due, and moves the
// other entries to lower levels.
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

// moveTo sets the current tick. The buckets between the old and the new tick must be empty.
func (w *Wheel[T]) moveTo(now int64) {
	if now <= w.now {
		return
	}
	w.now = now
	for i := range w.levels {
		l := &w.levels[i]
		if now <= l.until {
			// The tick now is still in this level's current bucket, and therefore in the current bucket of
			// each higher level.
			return
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

// lastTick returns the last tick of the bucket that lies the given number of buckets after the
// current one, but at most MaxInt64.
func (l *level[T]) lastTick(buckets int64) int64 {
	if l.position >= math.MaxInt64/l.width-buckets {
		return math.MaxInt64
	}
	return (l.position+buckets+1)*l.width - 1
}

// link adds the entry e to the lowest level whose ring contains e's due tick. The due tick must be
// after the current tick.
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
	// The due tick is less than one round after the current tick, so a subtraction can replace the
	// modulo operation.
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

// unlink removes the entry e from its bucket.
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

// addLevel adds a level above the existing ones. It is called only if the rings of all levels end
// before MaxInt64, so the width does not overflow.
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
