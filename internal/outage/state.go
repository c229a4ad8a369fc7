package outage

import "time"

// interval is how long after the beginning of one outage the next is told at the earliest. On a
// disk that is just about full small batches pass and large ones fail, which is an outage every few
// milliseconds.
const interval = time.Minute

// State follows work that fails and is tried again. The zero value is work that goes well.
type State struct {
	open   bool      // its beginning was told, its end not yet
	told   time.Time // when a beginning was told last
	failed int       // failures since then
}

// Fail counts a failure, and tells whether it is the beginning of an outage that is to be told.
func (s *State) Fail(now time.Time) (begins bool) {
	if !s.open && (s.told.IsZero() || now.Sub(s.told) >= interval) {
		*s = State{open: true, told: now}
		begins = true
	}
	s.failed++
	return begins
}

// Succeed tells whether that is the end of an outage whose beginning was told, and how many
// failures there were since.
func (s *State) Succeed() (failed int, ends bool) {
	if !s.open {
		return 0, false
	}
	s.open = false
	return s.failed, true
}
