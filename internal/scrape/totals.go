package scrape

import "maps"

// Totals sums the counters of objects that come and go, such as the logs of a broker. The plain sum
// over the present objects would fall when an object is removed, which Prometheus takes for a
// restart of the process: rate would then add the whole rest of the sum again.
//
// Invariant: each result of Sum is at least the previous one.
type Totals[K comparable] struct {
	ended []float64 // sums of the last known counters of removed objects
	last  map[K][]float64
}

// Sum returns the sum of each counter over all objects so far. The argument present contains the
// counters of each present object, always in the same order and number. Counters that are lower
// than in the previous call belong to a new object with the same key. Counts of an object between
// the previous call and its removal are not included. Sum keeps present; the caller must not change
// it later. The result has count elements.
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
