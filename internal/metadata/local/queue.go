package local

// queuedChange is a change that waits for the lock changing. That lock guards done and err.
type queuedChange struct {
	f    func(*document) error
	done bool
	err  error
}

// changeAllLocked makes several changes with one write and one image. The caller holds changing.
// Otherwise a request that deletes many topics would wait for one write per topic. Each change is
// applied to the result of the previous ones. A failed change does not affect the others. If the
// write fails, all changes fail.
func (s *Store) changeAllLocked(changes []*queuedChange) {
	err := s.changeLocked(electionOptions{}, func(d *document) error {
		if len(changes) == 1 {
			return changes[0].f(d)
		}
		for _, c := range changes {
			next := d.clone()
			if c.err = c.f(&next); c.err == nil {
				*d = next
			}
		}
		return nil
	})
	for _, c := range changes {
		if c.done = true; c.err == nil {
			c.err = err
		}
	}
}
