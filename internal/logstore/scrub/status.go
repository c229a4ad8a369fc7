package scrub

// Status is the state of a Scrubber at one moment.
type Status struct {
	State
	Settings Settings
	// Targets are all targets when the scrub last listed them; nil before.
	Targets []Target
}

// Status returns the status.
func (s *Scrubber) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{s.state, *s.settings.Load(), s.targets}
}
