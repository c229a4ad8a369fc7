package outage

import "time"

// foldKeysMax limits the number of keys in a Fold, which bounds its memory. Events with further
// keys are counted together.
const foldKeysMax = 1000

// Fold limits the logging of events that clients cause, such as denials. The first event with a key
// is logged immediately. The number of further events is logged with the first event in the next
// interval, which begins after a minute. The zero value is ready for use.
type Fold[K comparable] struct {
	begun  time.Time
	counts map[K]int // events since begun by key; the first of each was logged
	others int       // events whose keys exceed foldKeysMax
}

// Add counts an event. If logs is true, the caller must log the event, and folded is the number of
// events in the previous interval that were not logged.
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
