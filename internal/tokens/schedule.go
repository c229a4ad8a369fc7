package tokens

import "time"

const (
	// refreshInterval is the time between two reads of the keys
	// (sasl.oauthbearer.jwks.endpoint.refresh.ms).
	refreshInterval = time.Hour
	// retryFirst and retryLongest limit the time between two reads of which the first has failed.
	// It doubles with each failure.
	retryFirst   = time.Second
	retryLongest = time.Minute
	// unknownFirst and unknownLongest limit the time after a read until an unknown key id causes
	// the next one. It doubles with each such read that finds no other keys.
	unknownFirst   = 10 * time.Second
	unknownLongest = 10 * time.Minute
)

// schedule decides when the keys are read. It is pure. The zero value is due at once.
type schedule struct {
	last     time.Time // end of the last read
	failures int       // consecutive failures
	// fruitless is the number of consecutive reads because of an unknown key id that found no other
	// keys. Any other read ends them: no unknown key id was seen for an hour.
	fruitless int
}

// failed records a read that has failed.
func (s *schedule) failed(now time.Time) { s.last, s.failures = now, s.failures+1 }

// succeeded records a read. Parameter unknown is true if an unknown key id has caused it, and
// changed if the keys are not the previous ones.
func (s *schedule) succeeded(now time.Time, unknown, changed bool) {
	s.last, s.failures = now, 0
	if unknown && !changed {
		s.fruitless++
	} else {
		s.fruitless = 0
	}
}

// next returns the time of the next read. Parameter unknown is true if a token had an unknown key
// id since the last one.
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

// doubled returns the least duration, doubled the given number of times, at most the largest.
func doubled(least, most time.Duration, times int) time.Duration {
	for ; times > 0 && least < most; times-- {
		least *= 2
	}
	return min(least, most)
}
