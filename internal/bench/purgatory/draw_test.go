package purgatory

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestFittedDistributionHasTheRequestedPercentiles(t *testing.T) {
	for _, want := range [][2]time.Duration{
		{20 * time.Millisecond, 60 * time.Millisecond},
		{200 * time.Millisecond, 400 * time.Millisecond}, {time.Microsecond, time.Hour},
	} {
		fitted := fit(want[0], want[1])
		for i, score := range []float64{0, quartileScore} {
			if got := fitted.at(score); math.Abs(got/float64(want[i])-1) > 1e-6 {
				t.Errorf("fit%v: percentile %d is %v", want, i, time.Duration(got))
			}
		}
	}
	// The error function defines the standard normal distribution.
	if got := 0.5 * math.Erfc(-quartileScore/math.Sqrt2); math.Abs(got-0.75) > 1e-12 {
		t.Errorf("Φ(quartileScore) = %v", got)
	}
}

// TestDrawnLatenciesHaveTheRequestedPercentiles checks the median and the 75th percentile of the
// drawn latencies. It also checks the share of latencies above a timeout of 200 ms, which follows
// from both percentiles.
func TestDrawnLatenciesHaveTheRequestedPercentiles(t *testing.T) {
	for _, c := range []struct {
		median, quartile time.Duration
		expiring         float64 // share above 200 ms: 1 - Φ(ln(200/median) / deviation)
	}{
		{20 * time.Millisecond, 60 * time.Millisecond, 0.0787},
		{200 * time.Millisecond, 400 * time.Millisecond, 0.5},
	} {
		opts := smallLoad()
		opts.Median, opts.Quartile = c.median, c.quartile
		latencies := slices.Sorted(slices.Values(draw(opts).latencies))
		for _, want := range []struct {
			part  float64
			value time.Duration
		}{{0.5, c.median}, {0.75, c.quartile}} {
			// index is the number of latencies below the value. The tolerance of one percent is
			// more than three standard errors.
			index, _ := slices.BinarySearch(latencies, want.value)
			if part := float64(index) / draws; math.Abs(part-want.part) > 0.01 {
				t.Errorf("%v is percentile %.1f, want %.1f", want.value, 100*part, 100*want.part)
			}
		}
		index, _ := slices.BinarySearch(latencies, opts.Timeout)
		if part := 1 - float64(index)/draws; math.Abs(part-c.expiring) > 0.01 {
			t.Errorf("median %v: %.3f would expire, want %.3f", c.median, part, c.expiring)
		}
	}
}

// TestArrivalGapsAreExponential checks that the gaps have exactly the mean that the rate requires,
// even if it is a few nanoseconds. An exponential distribution has a median of ln 2 times the mean.
func TestArrivalGapsAreExponential(t *testing.T) {
	for _, rate := range []int{1, 25_000, 1_000_000, 50_000_000} {
		opts := smallLoad()
		opts.Rate = rate
		gaps := draw(opts).gaps
		sum := time.Duration(0)
		for _, gap := range gaps {
			if gap < 0 {
				t.Fatalf("rate %d: gap %v", rate, gap)
			}
			sum += gap
		}
		mean := float64(time.Second) / float64(rate)
		if got := float64(sum) / draws; math.Abs(got/mean-1) > 1e-4 {
			t.Errorf("rate %d: mean %v, want %v", rate, got, mean)
		}
		slices.Sort(gaps)
		if got := float64(gaps[draws/2]); math.Abs(got-mean*math.Ln2) > max(0.03*mean, 1) {
			t.Errorf("rate %d: median %v, want %v", rate, got, mean*math.Ln2)
		}
	}
}

func TestRateZeroHasNoGaps(t *testing.T) {
	opts := smallLoad()
	opts.Rate = 0
	if slices.ContainsFunc(draw(opts).gaps, func(gap time.Duration) bool { return gap != 0 }) {
		t.Error("rate 0 drew a gap above 0")
	}
}

func TestKeysAreDistinctPerRequestAndUsedEqually(t *testing.T) {
	opts := smallLoad()
	uses := map[key]int{}
	for _, keys := range draw(opts).keys {
		if len(keys) != opts.Keys {
			t.Fatalf("a request watches %d keys, want %d", len(keys), opts.Keys)
		}
		for i, k := range keys {
			uses[k]++
			if slices.Contains(keys[:i], k) {
				t.Fatalf("%v watches a key twice", keys)
			}
		}
	}
	for k, count := range uses {
		if want := draws * opts.Keys / opts.OfKeys; count < want*3/4 || count > want*5/4 {
			t.Errorf("%v is watched by %d requests, want about %d", k, count, want)
		}
	}
	if len(uses) != opts.OfKeys {
		t.Errorf("%d of %d keys are used", len(uses), opts.OfKeys)
	}
}

func TestSeedDeterminesTheDraw(t *testing.T) {
	one, two := draw(smallLoad()), draw(smallLoad())
	if !slices.Equal(one.gaps, two.gaps) || !slices.Equal(one.latencies, two.latencies) {
		t.Error("two draws with the same seed differ")
	}
	opts := smallLoad()
	opts.Seed++
	if slices.Equal(one.latencies, draw(opts).latencies) {
		t.Error("draws with different seeds are equal")
	}
}

// TestDrawnValuesAreBounded draws from a distribution with values beyond the range of a Duration.
// No value may overflow.
func TestDrawnValuesAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	wide := fit(time.Nanosecond, time.Hour)
	for range draws {
		if d := wide.draw(random); d < 0 || d > 24*time.Hour {
			t.Fatalf("drew %v, want 0 to 24h", d)
		}
	}
}
