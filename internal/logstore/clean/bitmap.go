package clean

import (
	"math/bits"
	"sync/atomic"
)

// bitmap is a set of the ordinals of a segment's records. The zero value is empty and uses no
// memory.
type bitmap []uint64

// newBitmap returns an empty set for ordinals below records.
func newBitmap(records uint32) bitmap { return make(bitmap, (uint64(records)+63)/64) }

// bitmapBytes returns the memory size of the result of newBitmap.
func bitmapBytes(records uint32) int64 { return 8 * ((int64(records) + 63) / 64) }

// has reports whether i is in the set. Ordinals beyond the last word are not in the set.
func (b bitmap) has(i uint32) bool {
	word := int(i / 64)
	return word < len(b) && b[word]>>(i%64)&1 == 1
}

// set adds i, which must be below the size that newBitmap or extend provided.
func (b bitmap) set(i uint32) { b[i/64] |= 1 << (i % 64) }

// clear removes i.
func (b bitmap) clear(i uint32) {
	if word := int(i / 64); word < len(b) {
		b[word] &^= 1 << (i % 64)
	}
}

// setShared is the atomic version of set, for bitmaps that several hash slices modify at once. Two
// slices may modify the same word, because the keys of adjacent records can belong to different
// slices.
func (b bitmap) setShared(i uint32) { atomic.OrUint64(&b[i/64], 1<<(i%64)) }

// setRange adds the ordinals in [from, to).
func (b bitmap) setRange(from, to uint32) {
	for i := from; i < to; {
		if i%64 == 0 && to-i >= 64 {
			b[i/64] = ^uint64(0)
			i += 64
			continue
		}
		b.set(i)
		i++
	}
}

// extend enlarges the bitmap to a size at which i can be added.
func (b *bitmap) extend(i uint32) {
	if words := int(i/64) + 1; words > len(*b) {
		*b = append(*b, make(bitmap, words-len(*b))...)
	}
}

// count returns the number of elements in [from, to). It counts whole words, because it is called
// for every batch. It masks the first and the last word if the range begins or ends inside them.
func (b bitmap) count(from, to uint32) int {
	n := 0
	for word := int(from / 64); word < len(b) && uint64(word)*64 < uint64(to); word++ {
		bitsOf := b[word]
		if first := uint32(word) * 64; first < from {
			bitsOf &= ^uint64(0) << (from - first)
		}
		if end := uint64(word)*64 + 64; end > uint64(to) {
			bitsOf &= ^uint64(0) >> (end - uint64(to))
		}
		n += bits.OnesCount64(bitsOf)
	}
	return n
}

// all returns the number of elements.
func (b bitmap) all() int {
	n := 0
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// members yields the elements in ascending order.
func (b bitmap) members(yield func(uint32) bool) {
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(i)*64 + uint32(bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// without returns a new set with the elements of b that are not in other.
func (b bitmap) without(other bitmap) bitmap {
	out := make(bitmap, len(b))
	for i, word := range b {
		if i < len(other) {
			word &^= other[i]
		}
		out[i] = word
	}
	return out
}
