package purgatory

import (
	"math"
	"math/rand/v2"
	"time"
)

// draws is the number of random times and key sets that are drawn. Request i uses the draw with
// index i%draws. The number is large enough that the repetition does not affect the results, and
// small enough for the CPU cache.
const draws = 1 << 15

// quartileScore is the 75th percentile of the standard normal distribution: Φ(0.67449) = 0.75.
const quartileScore = 0.6744897501960817

// key is a key that requests watch in the purgatory. It has the same fields as a partition, which
// is the key in a broker.
type key struct {
	topic string
	index int32
}

// load contains the requests' random times and keys. They are drawn before the measurement starts.
type load struct {
	gaps      []time.Duration // from the arrival of a request to the next arrival
	latencies []time.Duration // from the arrival of a request to its completion
	keys      [][]key         // the keys that each request watches, without duplicates
}

// draw returns the load for the options. Equal options result in equal loads.
func draw(opts Options) load {
	random := rand.New(rand.NewPCG(opts.Seed, 0))
	l := load{
		gaps:      make([]time.Duration, draws),
		latencies: make([]time.Duration, draws),
		keys:      make([][]key, draws),
	}
	if opts.Rate > 0 {
		exponential(random, l.gaps, float64(time.Second)/float64(opts.Rate))
	}
	fitted := fit(opts.Median, opts.Quartile)
	all := make([]key, opts.OfKeys)
	for i := range all {
		all[i] = key{"purgatory", int32(i)}
	}
	for i := range draws {
		l.latencies[i] = fitted.draw(random)
		l.keys[i] = choose(random, all, opts.Keys)
	}
	return l
}

// exponential fills gaps with exponentially distributed durations. The mean of a random sample
// deviates by half a percent, which would change the rate, so exponential scales the durations to
// the exact mean.
func exponential(random *rand.Rand, gaps []time.Duration, meanNs float64) {
	values, sum := make([]float64, len(gaps)), 0.0
	for i := range values {
		values[i] = random.ExpFloat64()
		sum += values[i]
	}
	scale := meanNs * float64(len(gaps)) / sum
	exact, last := 0.0, time.Duration(0)
	for i, value := range values {
		// Round the sum and not each value, because rounding each value to nanoseconds would change a
		// mean of a few nanoseconds.
		exact += value * scale
		gaps[i] = time.Duration(exact) - last
		last += gaps[i]
	}
}

// logNormal is the distribution of durations whose logarithm, in nanoseconds, is normal.
type logNormal struct{ mean, deviation float64 }

// fit returns the log-normal distribution with the given 50th and 75th percentiles; 0 < median <
// quartile.
func fit(median, quartile time.Duration) logNormal {
	mean := math.Log(float64(median))
	return logNormal{mean: mean, deviation: (math.Log(float64(quartile)) - mean) / quartileScore}
}

// at returns the duration for a standard score. A share Φ(score) of all durations is at most that
// long, where Φ is the standard normal distribution.
func (l logNormal) at(score float64) float64 { return math.Exp(l.mean + l.deviation*score) }

// draw returns a random value of at most a day, because larger values might overflow a Duration.
func (l logNormal) draw(random *rand.Rand) time.Duration {
	return time.Duration(min(l.at(random.NormFloat64()), float64(24*time.Hour)))
}

// choose returns count distinct random elements of the slice all, 0 < count <= len(all). It
// reorders the slice.
func choose(random *rand.Rand, all []key, count int) []key {
	for i := range count {
		j := i + random.IntN(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return append([]key(nil), all[:count]...)
}
