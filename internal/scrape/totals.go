package scrape

import "maps"

// Totals sums the counters of objects that can be added and removed, such as a broker's logs. The
// plain sum over the present objects would fall when an object is removed. Prometheus would take
// that for a restart of the process, and rate would add the whole remaining sum again.
//
// Invariant: each result of Sum is at least the previous one.
type Totals[K comparable] struct {
	ended []float64 // sums of the last known counters of removed objects
	last  map[K][]float64
}

// Sum returns each counter's sum over all objects so far. Parameter present contains the counters
// of each present object, always in the same order and number. Counters that are lower than in the
// previous call belong to a new object with the same key. Increments between the previous call and
// an object's removal are not included. Sum keeps present, so the caller must not change it later.
// The result has count elements.
func (t *Totals[K]) Sum(present map[K][]float64, count int) []float64 {
	if t.ended == nil {
		t.ended = make([]float64, count)
	}
	for key, before := range t.last {
		if now, ok := present[key]; !ok || restarted(before, now) {
			add(t.ended, before)
		}
	}
	t.last = present
	sums := make([]float64, count)
	add(sums, t.ended)
	for counters := range maps.Values(present) {
		add(sums, counters)
	}
	return sums
}

// restarted reports whether a counter is lower than before.
func restarted(before, now []float64) bool {
	for i := range before {
		if now[i] < before[i] {
			return true
		}
	}
	return false
}

func add(to, values []float64) {
	for i, value := range values {
		to[i] += value
	}
}
