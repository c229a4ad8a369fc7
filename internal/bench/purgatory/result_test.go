package purgatory

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestHistogramQuantiles compares each quantile with the exact one, which it finds by sorting. The
// histogram's quantile may be at most 1/32 higher.
func TestHistogramQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	for _, count := range []int{1, 2, 99, 1000, 20_000} {
		var h histogram
		var all []time.Duration
		for range count {
			d := time.Duration(random.Int64() >> random.IntN(63))
			all = append(all, d)
			h.add(d)
		}
		slices.Sort(all)
		for _, part := range []float64{0.001, 0.5, 0.99, 1} {
			want := all[max(int(part*float64(count)+0.5), 1)-1]
			if got := h.quantile(part); got < want || float64(got) > float64(want)*33/32+1 {
				t.Errorf("%d values: quantile %v is %d, want %d", count, part, got, want)
			}
		}
		if h.quantile(1) != all[count-1] {
			t.Errorf("the maximum is %v, want %v", h.quantile(1), all[count-1])
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("the quantile of an empty histogram is %v, want 0", got)
	}
}

// TestHistogramCountersAreAdjacent checks that the ranges of the counters have no gaps and do not
// overlap.
func TestHistogramCountersAreAdjacent(t *testing.T) {
	for i := range counters - 1 {
		if last := upper(i); last >= 0 &&
			(counter(last) != i || last < 1<<62 && counter(last+1) != i+1) {
			t.Fatalf("counter %d ends at %d, which maps to counter %d; the next duration maps to %d", i, last,
				counter(last), counter(last+1))
		}
	}
}

// TestJSONFieldNames checks the names in the JSON and text output, because scripts depend on them.
func TestJSONFieldNames(t *testing.T) {
	var out strings.Builder
	if err := (Result{Kind: "purgatory"}).Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(out.String()), &fields); err != nil {
		t.Fatal(err)
	}
	names := []string{
		"requests", "target_rate", "achieved_rate", "completed", "expired", "cpu_seconds",
		"elapsed_seconds", "peak_memory_bytes",
		"gc_pauses_ms", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms", "early", "kind",
	}
	for _, name := range names {
		if _, has := fields[name]; !has {
			t.Errorf("the JSON has no field %q", name)
		}
	}
	if len(fields) != len(names) {
		t.Errorf("the JSON has the fields %v, want %v", fields, names)
	}
	// The text output must contain the same names and values.
	var text strings.Builder
	if err := (Result{Expired: 4711}).Print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(text.String(), name+" ") {
			t.Errorf("the text has no %q:\n%s", name, text.String())
		}
	}
	if !strings.Contains(text.String(), "4711") {
		t.Errorf("the text does not contain the value 4711:\n%s", text.String())
	}
}
