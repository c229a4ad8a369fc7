package purgatory

import (
	"math"
	"math/rand/v2"
	"time"
)

// draws is how many times and sets of keys are drawn; requests beyond that take them in turn again.
// Enough that no pattern is seen, few enough that they stay in the processor's cache.
const draws = 1 << 15

// quartileScore is the standard normal distribution's 75th percentile: Φ(0.67449) = 0.75.
const quartileScore = 0.6744897501960817

// key is what a request watches: of the form that the broker's partitions have.
type key struct {
	topic string
	index int32
}

// load is what the requests do, drawn before the clock starts.
type load struct {
	gaps      []time.Duration // from one arrival to the next
	latencies []time.Duration // from the arrival to the completion
	keys      [][]key         // watched, all different within a request
}

// draw makes a load. The same options give the same load.
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

// exponential fills gaps with exponentially distributed durations, scaled so that their mean is
// exact: a sample's mean would be off by half a percent, and the rate with it.
func exponential(random *rand.Rand, gaps []time.Duration, meanNs float64) {
	values, sum := make([]float64, len(gaps)), 0.0
	for i := range values {
		values[i] = random.ExpFloat64()
		sum += values[i]
	}
	scale := meanNs * float64(len(gaps)) / sum
	exact, last := 0.0, time.Duration(0)
	for i, value := range values {
		// rounded as a sum: a mean of a few nanoseconds would not survive rounding each
		exact += value * scale
		gaps[i] = time.Duration(exact) - last
		last += gaps[i]
	}
}

// logNormal is a distribution whose logarithm, of nanoseconds, is normal.
type logNormal struct{ mean, deviation float64 }

// fit finds the log-normal distribution with the given 50th and 75th percentiles, 0 < median <
// quartile.
func fit(median, quartile time.Duration) logNormal {
	mean := math.Log(float64(median))
	return logNormal{mean: mean, deviation: (math.Log(float64(quartile)) - mean) / quartileScore}
}

// at is the distribution's value at a score: its percentile Φ(score).
func (l logNormal) at(score float64) float64 { return math.Exp(l.mean + l.deviation*score) }

// draw takes a value, at most a day: a wide distribution's tail would not fit a Duration.
func (l logNormal) draw(random *rand.Rand) time.Duration {
	return time.Duration(min(l.at(random.NormFloat64()), float64(24*time.Hour)))
}

// choose picks count different keys of all, 0 < count <= len(all), and leaves all in another order.
func choose(random *rand.Rand, all []key, count int) []key {
	for i := range count {
		j := i + random.IntN(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return append([]key(nil), all[:count]...)
}
