package plot

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestScalesContainTheirValues checks scales of random ranges. Their ends must include the values.
// Their ticks must be within these ends, increase, and not be too many.
func TestScalesContainTheirValues(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 2000 {
		low := math.Pow(10, random.Float64()*12-6)
		high := low * math.Pow(10, random.Float64()*6)
		check(t, low, high, random, func() (scale, []float64) { return linear(0, high, 5) })
		check(t, low, high, random, func() (scale, []float64) { return linear(low, high, 6) })
		check(t, low, high, random, func() (scale, []float64) { return logarithmic(low, high) })
	}
}

func check(t *testing.T, low, high float64, random *rand.Rand, measure func() (scale, []float64)) {
	t.Helper()
	s, ticks := measure()
	s.from, s.to = 100, 500
	if s.low > low*(1+1e-9) || s.high < high*(1-1e-9) || len(ticks) < 2 || len(ticks) > 10 {
		t.Fatalf("scale %+v with ticks %v of values from %v to %v", s, ticks, low, high)
	}
	for i, tick := range ticks {
		index := s.at(tick)
		if i > 0 && tick <= ticks[i-1] || index < 100-1e-6 || index > 500+1e-6 {
			t.Fatalf("tick %v at pixel %v of scale %+v, ticks %v", tick, index, s, ticks)
		}
	}
	value := low + random.Float64()*(high-low)
	if index := s.at(value); index < 100-1e-6 || index > 500+1e-6 {
		t.Fatalf("value %v is at pixel %v of scale %+v", value, index, s)
	}
}

func TestNumbers(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.1: "0.1", 0.105: "0.105", 1.88: "1.88",
		10.95: "10.9", 128: "128", 1000: "1,000", 1234567: "1,234,567", 0.30000000000000004: "0.3",
		-2500: "-2,500", -250: "-250", 0.001234: "0.00123", 1000000: "1,000,000"} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %q, want %q", value, got, want)
		}
	}
}

// TestContrast checks the contrasts that WCAG 2.2 requires for text (1.4.3) and for graphics
// (1.4.11).
func TestContrast(t *testing.T) {
	for _, p := range []palette{light, dark} {
		for _, text := range []string{p.text, p.faint} {
			if c := contrast(t, text, p.background); c < 4.5 {
				t.Errorf("text %s on %s has the contrast %.2f", text, p.background, c)
			}
		}
		for _, colour := range p.series {
			if c := contrast(t, colour, p.background); c < 3 {
				t.Errorf("series %s on %s has the contrast %.2f", colour, p.background, c)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance, as defined by WCAG, of a colour such as #0072b2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		value, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		part := float64(value) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

func TestWrap(t *testing.T) {
	lines := wrap("one two three extraordinarily four", 9)
	if got := strings.Join(lines, "|"); got != "one two|three|extraordinarily|four" {
		t.Errorf("got %q", got)
	}
}
