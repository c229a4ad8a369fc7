package keys

import (
	"fmt"
	"math/bits"
)

// Range is a range of hashes, by Hash.High; both ends are in it, so that the last hash there is can
// be named.
type Range struct{ First, Last uint64 }

// Everything is the range of all hashes.
var Everything = Range{0, ^uint64(0)}

// Slice returns the number-th of count ranges that together are all hashes, none twice, and whose
// widths differ by one at most. Every entry of a key falls into the same slice in all segments.
// count is at least 1, and number below it.
//
// Hashes are uniform, so a slice has its share of the distinct keys, with the error of a random
// sample: the entries of a sidecar of a million keys fall into a slice of 1/256 as 3,906 with a
// standard deviation of 62. All entries of one hot key are in one slice.
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

// Has tells whether a hash is in the range.
func (r Range) Has(h Hash) bool { return r.First <= h.High && h.High <= r.Last }
