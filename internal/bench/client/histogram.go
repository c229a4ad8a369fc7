package client

import (
	"math/bits"
	"time"
)

// subBits is the precision of a histogram: it has 2^subBits buckets for each power of two, so a
// quantile is at most 1/64 too high.
const subBits = 6

// histogram counts durations in buckets of increasing width, like HdrHistogram, so that its size
// does not depend on their number. The zero value is ready to use.
type histogram struct {
	counts  [(64 - subBits) << subBits]int64
	count   int64
	longest time.Duration
}

// add counts a duration. Negative durations, caused by clocks of different machines, are counted as
// durations of 0.
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

// quantile returns an upper bound of the q-quantile, 0 <= q <= 1; 0 if nothing was counted.
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

// bucketOf returns the bucket of a number: exact below 2^(subBits+1), above by the first subBits+1
// bits.
func bucketOf(n uint64) int {
	shift := max(0, bits.Len64(n)-subBits-1)
	return shift<<subBits + int(n>>shift)
}

// bucketTop returns the largest number of a bucket.
func bucketTop(bucket int) uint64 {
	shift := max(0, bucket>>subBits-1)
	return (uint64(bucket-shift<<subBits)+1)<<shift - 1
}
