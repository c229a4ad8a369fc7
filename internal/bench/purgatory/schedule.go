package purgatory

import (
	"sync"
	"time"
)

// resolution is the range of completion times in one bucket of the schedule, and the shortest sleep
// of the load generator.
const resolution = time.Millisecond

// schedule holds requests until their completion time, which is relative to the run's start. It is
// a ring of buckets with one lock each. The load generator adds to buckets of future times while
// the completer empties buckets of past times, so they rarely wait for each other.
type schedule struct {
	buckets []bucket
}

type bucket struct {
	mu       sync.Mutex
	requests []*request
}

// newSchedule returns a schedule for requests that complete at most span after they are added.
func newSchedule(span time.Duration) *schedule {
	// The ring covers twice the span. So a completer that lags by one span still empties a bucket
	// before requests of the next round are added to it.
	return &schedule{buckets: make([]bucket, 2*(int(span/resolution)+2))}
}

// add schedules the completion of r.
func (s *schedule) add(r *request) {
	b := &s.buckets[int(r.completesAt/resolution)%len(s.buckets)]
	b.mu.Lock()
	b.requests = append(b.requests, r)
	b.mu.Unlock()
}

// take removes the requests that complete in the n-th millisecond of the run and appends them to
// the slice due. Requests of a later round of the ring stay in the bucket, because they complete
// later.
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
	clear(b.requests[len(later):]) // so that the garbage collector can free completed requests
	b.requests = later
	return due
}
