package tokens

import "time"

const (
	// refreshInterval is the time between two reads of the keys (Kafka's
	// sasl.oauthbearer.jwks.endpoint.refresh.ms).
	refreshInterval = time.Hour
	// retryFirst and retryLongest are the minimum and maximum time after a failed read until the next
	// read. The time doubles with each failure.
	retryFirst   = time.Second
	retryLongest = time.Minute
	// unknownFirst and unknownLongest are the minimum and maximum time after a read until an unknown
	// key id can cause another read. The time doubles with each such read that finds no new keys.
	unknownFirst   = 10 * time.Second
	unknownLongest = 10 * time.Minute
)

// schedule determines when the keys are read. It is pure. With the zero value, a read is due
// immediately.
type schedule struct {
	last     time.Time // end of the last read
	failures int       // consecutive failures
	// fruitless is the number of consecutive reads that an unknown key id has caused and that found no
	// new keys. Any other read resets it, because then no unknown key id was seen for an hour.
	fruitless int
}

// failed records a failed read.
func (s *schedule) failed(now time.Time) { s.last, s.failures = now, s.failures+1 }

// succeeded records a successful read. Parameter unknown is true if an unknown key id has caused
// it. Parameter changed is true if the keys have changed.
func (s *schedule) succeeded(now time.Time, unknown, changed bool) {
	s.last, s.failures = now, 0
	if unknown && !changed {
		s.fruitless++
	} else {
		s.fruitless = 0
	}
}

// next returns the time of the next read. Parameter unknown is true if a token had an unknown key
// id since the last read.
func (s *schedule) next(unknown bool) time.Time {
	switch {
	case s.last.IsZero():
		return s.last
	case s.failures > 0:
		return s.last.Add(doubled(retryFirst, retryLongest, s.failures-1))
	case unknown:
		return s.last.Add(doubled(unknownFirst, unknownLongest, s.fruitless))
	}
	return s.last.Add(refreshInterval)
}

// doubled returns the duration least, doubled the given number of times, but no more than most.
func doubled(least, most time.Duration, times int) time.Duration {
	for ; times > 0 && least < most; times-- {
		least *= 2
	}
	return min(least, most)
}
