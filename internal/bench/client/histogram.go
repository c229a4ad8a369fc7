package client

import (
	"math/bits"
	"time"
)

// subBits is how finely a histogram tells durations apart: 2^subBits buckets in each power of two,
// so a quantile is at most 1/64 above the truth.
const subBits = 6

// histogram counts durations in buckets that grow with them (as HdrHistogram does), since a run may
// have billions. Its zero value is ready.
type histogram struct {
	counts  [(64 - subBits) << subBits]int64
	count   int64
	longest time.Duration
}

// add counts one duration; one below zero, which clocks of two machines can give, counts as zero.
func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.longest = max(h.longest, d)
}

// merge adds what another counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range &other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.longest = max(h.longest, other.longest)
}

// quantile returns a duration that a share q (0 to 1) of all are no longer than; 0 if there are
// none.
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

// bucketOf is exact below 2^(subBits+1), and then keeps the subBits bits after the first one.
func bucketOf(n uint64) int {
	shift := max(0, bits.Len64(n)-subBits-1)
	return shift<<subBits + int(n>>shift)
}

// bucketTop is the largest number of a bucket.
func bucketTop(bucket int) uint64 {
	shift := max(0, bucket>>subBits-1)
	return (uint64(bucket-shift<<subBits)+1)<<shift - 1
}
