package keys

import (
	"fmt"
	"math/bits"
)

// Range is the range of hashes with First <= Hash.High <= Last.
type Range struct{ First, Last uint64 }

// AllHashes is the range of all hashes.
var AllHashes = Range{0, ^uint64(0)}

// Slice returns one of count hash slices. The slices are disjoint and cover all hashes, and their
// widths differ by at most one. All entries of a key are in the same slice, in every segment.
// number must be below count.
//
// Hashes are uniformly distributed, so a slice is a random sample of the distinct keys. For a
// million keys, one of 256 slices contains 3,906 keys on average, with a standard deviation of 62.
// The number of entries varies more, because all entries of a frequent key are in one slice.
func Slice(number, count uint32) Range {
	if number >= count {
		panic(fmt.Sprintf("slice %d of %d", number, count))
	}
	return Range{First: sliceBegin(number, count), Last: sliceBegin(number+1, count) - 1}
}

// sliceBegin returns floor(number * 2^64 / count). If number == count, the result is 2^64, which
// overflows to 0.
func sliceBegin(number, count uint32) uint64 {
	if number == count {
		return 0
	}
	quotient, _ := bits.Div64(uint64(number), 0, uint64(count))
	return quotient
}

// Contains reports whether a hash is in the range.
func (r Range) Contains(h Hash) bool { return r.First <= h.High && h.High <= r.Last }
