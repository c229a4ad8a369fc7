package logstore

import (
	"errors"
	"fmt"
)

// errReserved is the cause of ErrStorage while the remaining space of the volume is reserved for
// the cleaner.
var errReserved = errors.New("the remaining space of the volume is reserved for the cleaner")

// SetReserved sets whether the remaining space of the volume is reserved for the cleaner. While it
// is, appends of records fail with ErrStorage, also those of followers, and succeed again
// afterwards. Markers are appended, because they are small and end transactions that block
// cleaning.
func (s *Store) SetReserved(reserved bool) { s.reserved.Store(reserved) }

// checkReserve returns ErrStorage while the remaining space is reserved for the cleaner.
func (e *environment) checkReserve() error {
	if e.reserved.Load() {
		return fmt.Errorf("%w: %w", ErrStorage, errReserved)
	}
	return nil
}
