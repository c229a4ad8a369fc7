package scrub

// Status is the state of a Scrubber at one moment.
type Status struct {
	State
	Settings Settings
	// Configured is false before the first call of Configure.
	Configured bool
	// Targets are all targets when the scrub last listed them; nil before.
	Targets []Target
}

// Status returns the status.
func (s *Scrubber) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := s.settings.Load()
	return Status{s.state, *settings, settings != &unconfigured, s.targets}
}
