package outage

import "time"

// foldKeysMax bounds the memory of a Fold. Further events are counted together.
const foldKeysMax = 1000

// Fold limits the logging of events that clients cause, such as denials. The first event of its
// kind is logged at once. The number of the others is logged with the first event of the next
// interval, which is a minute. The zero value is ready for use.
type Fold[K comparable] struct {
	begun  time.Time
	counts map[K]int // events since begun; the first was logged
	others int       // events that exceed foldKeysMax
}

// Add counts an event. The result logs is true if the caller must log it; then folded is the number
// of events of the previous interval that were not logged.
func (f *Fold[K]) Add(key K, now time.Time) (folded int, logs bool) {
	if now.Sub(f.begun) >= interval {
		for _, n := range f.counts {
			folded += n - 1
		}
		folded += f.others
		f.begun, f.counts, f.others = now, map[K]int{}, 0
	}
	if _, known := f.counts[key]; !known && len(f.counts) >= foldKeysMax {
		f.others++
		return 0, false
	}
	f.counts[key]++
	return folded, f.counts[key] == 1
}
