package dev

import (
	"time"
)

// removalDelay is how long a file must lack a resource before the resource is removed. An editor
// that truncates the file before it writes it takes less.
const removalDelay = 5 * time.Second

// absence is a resource of an earlier manifest that no manifest contains any more.
type absence struct {
	resource string // Kind/name
	topic    string // Kafka name of a Topic; empty for other kinds
	file     string // that contained the resource last; empty: unknown
	read     bool   // the file is present and was read, and does not contain the resource
}

// removals decides when absent resources are removed. It is pure; now must never decrease.
//
// A resource is removed once its own file has lacked it for removalDelay. A file that is missing or
// could not be read removes nothing, and restarts the delay.
type removals struct {
	since map[string]time.Time // by resource: when its file was first read without it
}

// step returns the resources to remove now, and the time until the next one may be removed, or 0 if
// none waits.
func (r *removals) step(now time.Time, absent []absence) (due map[string]bool,
	wait time.Duration) {
	before := r.since
	r.since, due = map[string]time.Time{}, map[string]bool{}
	for _, a := range absent {
		if !a.read {
			continue
		}
		first, known := before[a.resource]
		if !known {
			first = now
		}
		rest := removalDelay - now.Sub(first)
		if rest <= 0 {
			due[a.resource] = true
			continue
		}
		r.since[a.resource] = first
		if wait == 0 || rest < wait {
			wait = rest
		}
	}
	return due, wait
}
