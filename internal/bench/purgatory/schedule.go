package purgatory

import (
	"sync"
	"time"
)

// resolution is the width of a bucket of the schedule, and the step of the load generator.
const resolution = time.Millisecond

// schedule holds requests until their completion time. Times are counted from the run's start. It
// is a ring of buckets with one lock each: one goroutine adds to future buckets while another
// empties past ones, so they do not contend.
type schedule struct {
	buckets []bucket
}

type bucket struct {
	mu       sync.Mutex
	requests []*request
}

// newSchedule returns a schedule for requests that complete within span of being added.
func newSchedule(span time.Duration) *schedule {
	// Twice the span, so that a completer that lags by one span does not reach the next round.
	return &schedule{buckets: make([]bucket, 2*(int(span/resolution)+2))}
}

// add schedules the completion of r.
func (s *schedule) add(r *request) {
	b := &s.buckets[int(r.completesAt/resolution)%len(s.buckets)]
	b.mu.Lock()
	b.requests = append(b.requests, r)
	b.mu.Unlock()
}

// take appends the requests of bucket number n, counted from the run's start, to due. Requests of a
// later round of the ring stay, as they would complete early.
func (s *schedule) take(n int, due []*request) []*request {
	b := &s.buckets[n%len(s.buckets)]
	b.mu.Lock()
	defer b.mu.Unlock()
	later := b.requests[:0]
	for _, r := range b.requests {
		if int(r.completesAt/resolution) <= n {
			due = append(due, r)
		} else {
			later = append(later, r)
		}
	}
	clear(b.requests[len(later):]) // release completed requests to the garbage collector
	b.requests = later
	return due
}
