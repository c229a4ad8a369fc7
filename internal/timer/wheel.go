package timer

import "math/bits"

const (
	slotBits = 6 // a level has 64 slots, so that a word holds which of them are used
	slots    = 1 << slotBits
	levels   = (63 + slotBits - 1) / slotBits // enough for every positive int64
)

// Entry is one timeout. It lives inside what waits; adding it to a wheel allocates nothing.
type Entry[T any] struct {
	Value T // the owner's

	due        int64
	prev, next *Entry[T]
	level      int8
	slot       int8
	pending    bool
}

// Wheel is a hierarchical timing wheel. Time is counted in ticks from the wheel's start.
//
// Level 0 has a slot a tick, level 1 a slot for 64 ticks, level 2 one for 4096, and so on; levels are made when first used. An
// entry sits in the level of the highest base-64 digit in which its due tick differs from now, in the slot of that digit. When
// now reaches the slot's first tick, the digit is equal, and its entries move to lower levels or are due. Hence Add and Cancel
// are O(1), an entry moves down at most levels-1 times, and none is due early or late.
//
// Invariants, for each pending entry e: now < e.due; e.slot > digit(now, e.level); digits above e.level are those of now. So
// slots are never reused for another round, and every entry of a level is due before every entry of the level above.
type Wheel[T any] struct {
	now     int64          // ticks; never falls
	count   int            // of pending entries
	used    [levels]uint64 // bit s of used[l] is set <=> heads[l][s] != nil
	heads   [levels]*[slots]*Entry[T]
	highest int // levels above were never used
}

// Len is the number of pending entries.
func (w *Wheel[T]) Len() int { return w.count }

// Add makes e due at a tick. What is due at or before now comes with the next tick. e must not be pending.
func (w *Wheel[T]) Add(e *Entry[T], due int64) {
	if e.pending {
		panic("timer: entry added twice")
	}
	e.due = max(due, w.now+1)
	e.pending = true
	w.count++
	w.link(e)
}

// Cancel takes e out, and tells whether it was pending.
func (w *Wheel[T]) Cancel(e *Entry[T]) bool {
	if !e.pending {
		return false
	}
	w.unlink(e)
	e.pending = false
	w.count--
	return true
}

// Next returns the tick at which a bucket is due: Advance has nothing to do before it. ok is false if nothing is pending.
func (w *Wheel[T]) Next() (tick int64, ok bool) {
	level, slot := w.lowest()
	if level < 0 {
		return 0, false
	}
	return w.begin(level, slot), true
}

// Advance moves the clock to now, and appends the entries that are due, in the order of their ticks, to due. Time that
// goes backwards is ignored. It goes from bucket to bucket, not from tick to tick: idle time costs nothing.
func (w *Wheel[T]) Advance(now int64, due []*Entry[T]) []*Entry[T] {
	for {
		level, slot := w.lowest()
		if level < 0 {
			break
		}
		begin := w.begin(level, slot)
		if begin > now {
			break
		}
		w.now = begin
		due = w.empty(level, slot, due)
	}
	w.now = max(w.now, now)
	return due
}

// empty takes a bucket whose first tick is now: its entries are due, or go to lower levels.
func (w *Wheel[T]) empty(level, slot int, due []*Entry[T]) []*Entry[T] {
	e := w.heads[level][slot]
	w.heads[level][slot] = nil
	w.used[level] &^= 1 << slot
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

// lowest finds the bucket that is due first; level is -1 if all are empty.
func (w *Wheel[T]) lowest() (level, slot int) {
	for level := 0; level <= w.highest; level++ {
		if used := w.used[level]; used != 0 {
			return level, bits.TrailingZeros64(used)
		}
	}
	return -1, 0
}

// begin is the first tick of a slot: now's digits above the level, the slot, zeros below.
func (w *Wheel[T]) begin(level, slot int) int64 {
	shift := level * slotBits
	above := uint64(w.now) >> shift >> slotBits << slotBits
	return int64((above | uint64(slot)) << shift)
}

// link puts e where its due tick belongs as seen from now. due > now, so a highest differing bit exists; the digit it lies
// in is the level.
func (w *Wheel[T]) link(e *Entry[T]) {
	level := (bits.Len64(uint64(w.now^e.due)) - 1) / slotBits
	slot := int(uint64(e.due)>>(level*slotBits)) % slots
	if w.heads[level] == nil {
		w.heads[level] = new([slots]*Entry[T])
		w.highest = max(w.highest, level)
	}
	head := &w.heads[level][slot]
	if e.next = *head; e.next != nil {
		e.next.prev = e
	}
	*head = e
	e.level, e.slot = int8(level), int8(slot)
	w.used[level] |= 1 << slot
}

// unlink takes e out of its bucket; the bucket is free if it was the last.
func (w *Wheel[T]) unlink(e *Entry[T]) {
	if e.next != nil {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		w.heads[e.level][e.slot] = e.next
		if e.next == nil {
			w.used[e.level] &^= 1 << e.slot
		}
	}
	e.prev, e.next = nil, nil
}
