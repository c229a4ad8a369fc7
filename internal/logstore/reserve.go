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

// SetRefusal sets the error with which batches of clients are refused, nil while they are accepted.
// Batches of coordinators, replicated records and markers are appended.
func (s *Store) SetRefusal(refusal error) {
	if refusal == nil {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&refusal)
}

// checkProduce returns the error of SetRefusal, or that of checkReserve.
func (e *environment) checkProduce() error {
	if refusal := e.refusal.Load(); refusal != nil {
		return *refusal
	}
	return e.checkReserve()
}

// checkReserve returns ErrStorage while the remaining space is reserved for the cleaner.
func (e *environment) checkReserve() error {
	if e.reserved.Load() {
		return fmt.Errorf("%w: %w", ErrStorage, errReserved)
	}
	return nil
}
