package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale maps the values of an axis to pixels.
type scale struct {
	low, high float64 // values at both ends; low < high, and low > 0 if log
	log       bool
	from, to  float64 // pixels at both ends
}

// at returns a value's pixel. It does not clip values outside the scale.
func (s scale) at(value float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, value = math.Log(low), math.Log(high), math.Log(value)
	}
	return s.from + (value-low)/(high-low)*(s.to-s.from)
}

// linear returns a scale from low or less to high or more, with about n round ticks.
func linear(low, high float64, n int) (scale, []float64) {
	if high <= low {
		high = low + 1
	}
	step := roundStep((high - low) / float64(n))
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	var ticks []float64
	for i := first; i <= last; i++ {
		ticks = append(ticks, i*step)
	}
	return scale{low: first * step, high: last * step}, ticks
}

// roundStep returns the smallest step that is 1, 2, 5 or 10 times a power of ten and not below
// step.
func roundStep(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= step*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// logarithmic returns a logarithmic scale from low or less to high or more. Its ends and ticks are
// 1, 2 and 5 times a power of ten. If the scale covers two decades or more, the ticks are only
// powers of ten.
func logarithmic(low, high float64) (scale, []float64) {
	var ends []float64
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high))+1; power++ {
		for _, factor := range []float64{1, 2, 5} {
			ends = append(ends, factor*math.Pow(10, power))
		}
	}
	for ends[1] <= low*(1+1e-9) {
		ends = ends[1:]
	}
	for len(ends) > 2 && ends[len(ends)-2] >= high*(1-1e-9) {
		ends = ends[:len(ends)-1]
	}
	s := scale{low: ends[0], high: ends[len(ends)-1], log: true}
	if s.high/s.low < 100 {
		return s, ends
	}
	return s, slices.DeleteFunc(ends, func(tick float64) bool {
		power := math.Log10(tick)
		return math.Abs(power-math.Round(power)) > 1e-9
	})
}

// number returns a value with at most three significant digits, and a comma for each thousand.
func number(value float64) string {
	if value == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(value))+1e-9)))
	text := strconv.FormatFloat(value, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, fraction, found := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		return whole + "." + fraction
	}
	return whole
}
