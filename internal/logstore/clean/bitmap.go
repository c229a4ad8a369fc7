package clean

import "math/bits"

// bitmap is a set of a segment's records, by their ordinal. The zero value is empty and takes no memory.
type bitmap []uint64

// has tells whether i is in the set. What lies beyond the last word is not: a bitmap grows only as far as its last member.
func (b bitmap) has(i uint32) bool {
	word := int(i / 64)
	return word < len(b) && b[word]>>(i%64)&1 == 1
}

// set adds i; it must be within what grow made room for.
func (b bitmap) set(i uint32) { b[i/64] |= 1 << (i % 64) }

// count returns how many of [from, to) are set. It counts by words, because decide asks it for every batch; the first and
// the last word are masked where the range begins or ends inside them.
func (b bitmap) count(from, to uint32) int {
	n := 0
	for word := int(from / 64); word < len(b) && uint32(word)*64 < to; word++ {
		bitsOf := b[word]
		if first := uint32(word) * 64; first < from {
			bitsOf &= ^uint64(0) << (from - first)
		}
		if end := uint32(word)*64 + 64; end > to {
			bitsOf &= ^uint64(0) >> (end - to)
		}
		n += bits.OnesCount64(bitsOf)
	}
	return n
}

// grow makes room for ordinals up to i, and reserves the memory for it; without enough of it, it fails with ErrOverBudget
// and changes nothing. The larger array is reserved before the old one is released: both are there while one is copied.
func (b *bitmap) grow(i uint32, m *memory) error {
	words := int(i/64) + 1
	if words <= len(*b) {
		return nil
	}
	if words > cap(*b) {
		wanted := max(words, 2*cap(*b), 16)
		if err := m.reserve(int64(8 * wanted)); err != nil {
			return err
		}
		larger := make(bitmap, len(*b), wanted)
		copy(larger, *b)
		m.release(int64(8 * cap(*b)))
		*b = larger
	}
	// What lies between length and capacity is zero: it came so from make, and no bitmap ever shrinks.
	*b = (*b)[:words]
	return nil
}

// add is grow and set, and fails as grow does.
func (b *bitmap) add(i uint32, m *memory) error {
	if err := b.grow(i, m); err != nil {
		return err
	}
	b.set(i)
	return nil
}
