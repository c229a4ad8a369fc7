package scrub

// Status is the state of a Scrubber at one moment.
type Status struct {
	State
	Settings Settings
	// Configured is false before the first call of Configure.
	Configured bool
	// Targets lists all targets when the scrub last listed them; nil if it has not listed them yet.
	Targets []Target
}

// Status returns the scrubber's current status.
func (s *Scrubber) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := s.settings.Load()
	return Status{s.state, *settings, settings != &unconfigured, s.targets}
}
