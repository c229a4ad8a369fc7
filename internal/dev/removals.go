package dev

import (
	"time"
)

// removalDelay is how long a file must lack a resource before the resource is removed. An editor
// that truncates a file and then writes it takes less time.
const removalDelay = 5 * time.Second

// absence is a resource in an earlier manifest that no manifest contains any more.
type absence struct {
	resource string // Kind/name
	topic    string // Kafka name of a Topic; empty for other kinds
	file     string // file that last contained the resource; empty: unknown
	read     bool   // true if the file was read, and does not contain the resource
}

// removals decides when absent resources are removed. It is pure; its argument now must never
// decrease.
//
// A resource is removed after its own file has lacked it for removalDelay. If the file is missing
// or cannot be read, nothing is removed, and the delay starts again.
type removals struct {
	since map[string]time.Time // by resource: when its file was first read without the resource
}

// step returns the resources to remove now. It also returns the time until the next resource can be
// removed, or 0 if none is waiting.
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
