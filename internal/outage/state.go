package outage

import "time"

// interval is the minimum time between two reported beginnings. On a disk that is almost full,
// small batches succeed and large ones fail, which is an outage every few milliseconds.
const interval = time.Minute

// State follows work that fails and is retried. The zero value is work that succeeds.
type State struct {
	reported   bool      // the beginning was reported, and the end not yet
	reportedAt time.Time // when a beginning was last reported
	failures   int       // since then
}

// Fail counts a failure. It reports whether the failure begins an outage that is to be logged.
func (s *State) Fail(now time.Time) (begins bool) {
	if !s.reported && (s.reportedAt.IsZero() || now.Sub(s.reportedAt) >= interval) {
		*s = State{reported: true, reportedAt: now}
		begins = true
	}
	s.failures++
	return begins
}

// Succeed reports whether a success ends an outage whose beginning was reported, and the number of
// failures since then.
func (s *State) Succeed() (failures int, ends bool) {
	if !s.reported {
		return 0, false
	}
	s.reported = false
	return s.failures, true
}
