package local

import (
	"context"
	"errors"

	"heartwood.dev/heartwood/internal/metadata"
)

// ChangeISR implements metadata.Store. It makes all changes in one write of the file. A rejected
// change does not affect the other changes.
func (s *Store) ChangeISR(_ context.Context, changes []metadata.ISRChange,
	settled func(change int, err error)) {
	for i, err := range s.changeISR(changes) {
		settled(i, err)
	}
}

func (s *Store) changeISR(changes []metadata.ISRChange) []error {
	faults := make([]error, len(changes))
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.changeLocked(electionOptions{}, func(d *document) error {
		brokers := brokerStates(s.changing.up)
		for i, change := range changes {
			faults[i] = d.changeISR(change, brokers)
		}
		return nil
	})
	for i := range faults {
		faults[i] = errors.Join(faults[i], err)
	}
	return faults
}
