package client

import (
	"math/bits"
	"time"
)

// subBits is the precision of a histogram. Each range from a power of two to the next is divided
// into 2^subBits buckets, so a quantile is at most 1/64 too high.
const subBits = 6

// histogram counts durations in buckets of increasing width, like HdrHistogram, so that its size
// does not depend on the number of durations. The zero value is ready to use.
type histogram struct {
	counts  [(64 - subBits) << subBits]int64
	count   int64
	longest time.Duration
}

// add counts a duration. If the clocks of two machines differ, a duration may be negative; it is
// then counted as 0.
func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.longest = max(h.longest, d)
}

// merge adds the counts of another histogram.
func (h *histogram) merge(other *histogram) {
	for i, n := range &other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.longest = max(h.longest, other.longest)
}

// quantile returns an upper bound of the q-quantile, 0 <= q <= 1. It returns 0 if no duration was
// counted.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q*float64(h.count) + 0.5)
	seen := int64(0)
	for i, n := range &h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(h.longest, time.Duration(bucketTop(i)))
		}
	}
	return 0
}

// bucketOf returns the index of the bucket for n. A number below 2^(subBits+1) has its own bucket.
// Larger numbers share a bucket if their lengths and their first subBits+1 bits are equal.
func bucketOf(n uint64) int {
	shift := max(0, bits.Len64(n)-subBits-1)
	return shift<<subBits + int(n>>shift)
}

// bucketTop returns the largest number in a bucket.
func bucketTop(bucket int) uint64 {
	shift := max(0, bucket>>subBits-1)
	return (uint64(bucket-shift<<subBits)+1)<<shift - 1
}
