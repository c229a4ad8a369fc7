package local

import (
	"context"
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
)

// ChangeISR implements metadata.Store. It makes all changes in one write of the file. A rejected
// change does not affect the other changes. If the disk blocks, all changes fail after
// metadata.ChangeISRTimeout with the context's error.
func (s *Store) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	ctx, cancel := context.WithTimeout(ctx, metadata.ChangeISRTimeout)
	defer cancel()
	proposed := slices.Clone(changes) // cloned, because the write may outlast the call
	var epochs []int64
	var faults []error
	err := s.request(ctx, func() error {
		epochs, faults = s.changeISR(proposed)
		return nil
	})
	for i := range changes {
		if err != nil {
			settled(i, 0, err)
			continue
		}
		settled(i, epochs[i], faults[i])
	}
}

// changeISR returns the partition epoch and the error of each change.
func (s *Store) changeISR(changes []metadata.ISRChange) (epochs []int64, faults []error) {
	epochs, faults = make([]int64, len(changes)), make([]error, len(changes))
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.changeLocked(electionOptions{}, func(d *document) error {
		brokers := brokerStates(s.changing.up)
		for i, change := range changes {
			epochs[i], faults[i] = d.changeISR(change, brokers)
		}
		return nil
	})
	for i := range faults {
		if faults[i] = errors.Join(faults[i], err); faults[i] != nil {
			epochs[i] = 0 // the change was valid, but its write may have failed
		}
	}
	return epochs, faults
}
