package outage

import "time"

// interval is the minimum time between two reported beginnings of outages. On a disk that is almost
// full, small batches succeed and large ones fail, so an outage could begin every few milliseconds.
const interval = time.Minute

// State is the state of an operation that can fail and is retried. The zero value is the state of
// an operation that has not failed.
type State struct {
	reported   bool      // true between a reported beginning and the end of an outage
	reportedAt time.Time // time at which a beginning was last reported
	failures   int       // number of failures since reportedAt
}

// Fail counts a failure. If begins is true, the caller must log the beginning of an outage.
func (s *State) Fail(now time.Time) (begins bool) {
	if !s.reported && (s.reportedAt.IsZero() || now.Sub(s.reportedAt) >= interval) {
		*s = State{reported: true, reportedAt: now}
		begins = true
	}
	s.failures++
	return begins
}

// Succeed must be called after a success. If ends is true, the caller must log the end of an
// outage, and failures is the number of failures since the reported beginning.
func (s *State) Succeed() (failures int, ends bool) {
	if !s.reported {
		return 0, false
	}
	s.reported = false
	return s.failures, true
}
