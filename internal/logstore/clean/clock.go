package clean

import "encoding/binary"

// clock goes through the lonely records of a segment, of all groups, in the order of the ordinals.
type clock struct {
	hands []hand

	// The one within has yielded last.
	ordinal uint32
	sinceMs int64
}

// hand is how far one group is: next is to come.
type hand struct {
	sinceMs int64
	next    uint32
	rest    []byte // behind next
	done    bool
}

func newClock(groups []RemovableSet) *clock {
	c := &clock{}
	for _, g := range groups {
		h := hand{sinceMs: g.SinceMs, rest: g.ordinals}
		h.move()
		c.hands = append(c.hands, h)
	}
	return c
}

// move goes on to the group's next ordinal.
func (h *hand) move() {
	difference, size := binary.Uvarint(h.rest)
	if size <= 0 {
		h.done = true
		return
	}
	h.next += uint32(difference)
	h.rest = h.rest[size:]
}

// within yields those in [from, to), ascending, and leaves each in the clock's fields. What lies
// below from is passed over for good.
func (c *clock) within(from, to uint32) func(yield func() bool) {
	return func(yield func() bool) {
		for {
			best := -1
			for i := range c.hands {
				h := &c.hands[i]
				for !h.done && h.next < from {
					h.move()
				}
				if !h.done && h.next < to && (best < 0 || h.next < c.hands[best].next) {
					best = i
				}
			}
			if best < 0 {
				return
			}
			c.ordinal, c.sinceMs = c.hands[best].next, c.hands[best].sinceMs
			c.hands[best].move()
			if !yield() {
				return
			}
		}
	}
}
