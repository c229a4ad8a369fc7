package client

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestHistogramAgainstSortedList(t *testing.T) {
	for seed := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var left, right histogram
		var all []time.Duration
		for range 1 + random.IntN(5000) {
			d := time.Duration(math.Exp(random.Float64() * 43)) // from 1 ns to 150 years
			all = append(all, d)
			if random.IntN(2) == 0 {
				left.add(d)
			} else {
				right.add(d)
			}
		}
		left.merge(&right)
		slices.Sort(all)
		if left.count != int64(len(all)) || left.longest != all[len(all)-1] {
			t.Fatalf("seed %d: %d counted, longest %v", seed, left.count, left.longest)
		}
		for _, q := range []float64{0, .5, .9, .99, .999, 1} {
			want := all[max(0, int(q*float64(len(all))+0.5)-1)]
			if got := left.quantile(q); got < want || float64(got) > float64(want)*(1+1.0/64) {
				t.Errorf("seed %d: quantile %v is %v, want %v", seed, q, got, want)
			}
		}
	}
}

func TestBucketBounds(t *testing.T) {
	for _, n := range []uint64{0, 1, 63, 64, 127, 128, 129, 1 << 20, 1<<20 - 1, math.MaxInt64} {
		bucket := bucketOf(n)
		if bucket >= len(histogram{}.counts) || bucketTop(bucket) < n || bucket > 0 &&
			bucketTop(bucket-1) >= n {
			t.Errorf("%d is in bucket %d, up to %d", n, bucket, bucketTop(bucket))
		}
	}
	var none histogram
	if none.quantile(.5) != 0 {
		t.Error("the quantile of an empty histogram is not 0")
	}
	none.add(-time.Second)
	if none.quantile(1) != 0 || none.count != 1 {
		t.Error("a negative duration was not counted as 0")
	}
}
