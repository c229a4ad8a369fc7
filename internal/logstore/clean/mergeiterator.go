package clean

import "encoding/binary"

// mergeIterator is a k-way merge over several RemovableSets of a segment: it yields the sets'
// records in the order of their ordinals.
type mergeIterator struct {
	cursors []setCursor

	// ordinal and sinceMs describe the record that within yielded last.
	ordinal uint32
	sinceMs int64
}

// setCursor is the position of the merge in one set.
type setCursor struct {
	sinceMs int64
	next    uint32 // ordinal at the cursor, unless done
	rest    []byte // encoded ordinals after next
	done    bool
}

func newMergeIterator(sets []RemovableSet) *mergeIterator {
	m := &mergeIterator{}
	for _, set := range sets {
		c := setCursor{sinceMs: set.SinceMs, rest: set.ordinals}
		c.advance()
		m.cursors = append(m.cursors, c)
	}
	return m
}

// advance moves the cursor to the next ordinal of the set.
func (c *setCursor) advance() {
	difference, size := binary.Uvarint(c.rest)
	if size <= 0 {
		c.done = true
		return
	}
	c.next += uint32(difference)
	c.rest = c.rest[size:]
}

// within iterates over the records in [from, to) in ascending order. Before each step it sets
// ordinal and sinceMs. The ranges must ascend from call to call: a call skips the records below its
// range, and no later call returns to them.
func (m *mergeIterator) within(from, to uint32) func(yield func() bool) {
	return func(yield func() bool) {
		for {
			least := -1
			for i := range m.cursors {
				c := &m.cursors[i]
				for !c.done && c.next < from {
					c.advance()
				}
				if !c.done && c.next < to && (least < 0 || c.next < m.cursors[least].next) {
					least = i
				}
			}
			if least < 0 {
				return
			}
			m.ordinal, m.sinceMs = m.cursors[least].next, m.cursors[least].sinceMs
			m.cursors[least].advance()
			if !yield() {
				return
			}
		}
	}
}
