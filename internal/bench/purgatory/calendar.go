package purgatory

import (
	"sync"
	"time"
)

// dayLength is the calendar's resolution: that of the load generator, too.
const dayLength = time.Millisecond

// calendar holds requests until the time of their completion. Time is counted from the run's start.
// It is a ring of days, each with a lock of its own: one goroutine adds to days to come, another
// empties those that passed, and they do not meet.
type calendar struct {
	days []day
}

type day struct {
	mu       sync.Mutex
	requests []*request
}

// newCalendar makes one for requests that complete within span of being added.
func newCalendar(span time.Duration) *calendar {
	// Twice the span: a completer that lags by one does not meet the next round.
	return &calendar{days: make([]day, 2*(int(span/dayLength)+2))}
}

// add notes that r is to be completed at its completesAt.
func (c *calendar) add(r *request) {
	d := &c.days[int(r.completesAt/dayLength)%len(c.days)]
	d.mu.Lock()
	d.requests = append(d.requests, r)
	d.mu.Unlock()
}

// take appends the requests of a day to due. One of a later round stays: it would complete early.
func (c *calendar) take(number int, due []*request) []*request {
	d := &c.days[number%len(c.days)]
	d.mu.Lock()
	defer d.mu.Unlock()
	later := d.requests[:0]
	for _, r := range d.requests {
		if int(r.completesAt/dayLength) <= number {
			due = append(due, r)
		} else {
			later = append(later, r)
		}
	}
	clear(d.requests[len(later):]) // what has completed is garbage
	d.requests = later
	return due
}
