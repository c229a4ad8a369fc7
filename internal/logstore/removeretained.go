package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/datadir"
)

// ErrNotReleased is the error of RemoveRetained if a matching partition is still open or offline.
var ErrNotReleased = errors.New("the partition has not been released")

// Retained returns the retained logs, sorted by partition and time of release. A directory that
// cannot be read, or is reopened or removed meanwhile, is left out.
func (s *Store) Retained() ([]RetainedLog, error) {
	// The lock changes is not acquired: metadata images must not wait for the listing of many files.
	return datadir.MeasureRetained(s.opts.FS, s.opts.Dir, s.opts.Logger)
}

// RemoveRetained removes the retained logs that match, and returns them. A goroutine of the store
// deletes the data. When RemoveRetained returns without an error, the removal is durable, and
// CreateAll finds none of these logs: after a crash the next start deletes the rest.
//
// The error wraps ErrNotReleased if a partition that matches is open or offline. RemoveRetained
// then removes the others.
func (s *Store) RemoveRetained(match func(PartitionID, TopicID) bool) ([]RetainedLog, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	all, err := datadir.ListRetained(s.opts.FS, s.opts.Dir, s.opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	doomed := slices.DeleteFunc(all, func(r RetainedLog) bool {
		return !match(r.ID, datadir.TopicOf(s.opts.FS, filepath.Join(s.opts.Dir, r.Directory)))
	})
	faults := []error{s.notReleased(match)}
	var names []string
	var removed []RetainedLog
	for _, r := range doomed {
		name := datadir.ReleasedName(r.ID, datadir.NewID(), datadir.DeleteSuffix)
		if err := s.opts.FS.Rename(filepath.Join(s.opts.Dir, r.Directory),
			filepath.Join(s.opts.Dir, name)); err != nil {
			faults = append(faults, fmt.Errorf("%w: remove %s: %w", ErrStorage, r.Directory, err))
			continue
		}
		names, removed = append(names, name), append(removed, r)
	}
	if len(names) > 0 {
		if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
			faults = append(faults, fmt.Errorf("%w: sync data directory: %w", ErrStorage, err))
		}
		s.mu.Lock()
		s.mu.released = append(s.mu.released, names...)
		s.mu.Unlock()
		s.deleteSoon()
	}
	return removed, errors.Join(faults...)
}

// notReleased returns an error if a partition that is open or offline matches. The topic id of an
// offline partition is read from its directory; one that cannot be read matches nothing.
func (s *Store) notReleased(match func(PartitionID, TopicID) bool) error {
	for _, log := range s.Logs() {
		if match(log.ID(), log.TopicID()) {
			return fmt.Errorf("%w: %s", ErrNotReleased, log.ID())
		}
	}
	for id := range s.Offline() {
		if match(id, datadir.TopicOf(s.opts.FS, filepath.Join(s.opts.Dir, id.String()))) {
			return fmt.Errorf("%w: %s is offline", ErrNotReleased, id)
		}
	}
	return nil
}
