package keys

import (
	"fmt"
	"math/bits"
)

// Range is a range of hashes by Hash.High, which includes both ends.
type Range struct{ First, Last uint64 }

// AllHashes is the range of all hashes.
var AllHashes = Range{0, ^uint64(0)}

// Slice returns hash slice number of count: the slices are disjoint, cover all hashes, and their
// widths differ by one at most. All entries of a key are in the same slice of every segment. number
// must be below count.
//
// Hashes are uniform, so a slice has its share of the distinct keys, with the error of a random
// sample: of a million keys, a slice of 1/256 has 3,906 with a standard deviation of 62. All
// entries of one hot key are in one slice.
func Slice(number, count uint32) Range {
	if number >= count {
		panic(fmt.Sprintf("slice %d of %d", number, count))
	}
	return Range{First: sliceBegin(number, count), Last: sliceBegin(number+1, count) - 1}
}

// sliceBegin is floor(number * 2^64 / count); 2^64, which is 0 here, for number == count.
func sliceBegin(number, count uint32) uint64 {
	if number == count {
		return 0
	}
	quotient, _ := bits.Div64(uint64(number), 0, uint64(count))
	return quotient
}

// Contains reports whether a hash is in the range.
func (r Range) Contains(h Hash) bool { return r.First <= h.High && h.High <= r.Last }
