package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/parallel"
)

// Removal names a partition that ReleaseAll removes from this broker.
type Removal struct {
	ID     PartitionID
	Retain bool // true if the data is kept for a later Create
}

// Release calls ReleaseAll for one partition.
func (s *Store) Release(id PartitionID, retain bool) error {
	return s.ReleaseAll([]Removal{{id, retain}})
}

// ReleaseAll removes partitions from this broker. If Retain is true, the data is kept for a later
// Create; otherwise a goroutine of the store deletes it. A Slice that a reader holds can still be
// read. Releasing an unknown partition succeeds. The error joins all failures: after ErrStorage the
// partition is offline, and the caller may call ReleaseAll again.
//
// Logs whose data is deleted are closed without a sync. All renames together cost one sync and one
// write of the checkpoints, because removing a topic with many partitions must not occupy the
// caller for long.
func (s *Store) ReleaseAll(removals []Removal) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	var released []*released
	s.mu.Lock()
	closed := s.mu.closed
	for _, r := range removals {
		log, broken := s.mu.logs.get(r.ID), s.mu.offline[r.ID]
		if log != nil || broken.err != nil {
			released = append(released, newReleased(r, log, broken))
		}
	}
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case len(released) == 0:
		return nil
	}
	parallel.Each(released, s.opts.workers(backgroundWorkers), s.closeReleased)
	faults := s.renameReleased(released)
	// The directories are deleted only after the checkpoints omit their partitions. Otherwise a
	// start after a crash would treat a deleted directory as missing (noteMissing). If the
	// checkpoints cannot be written, for example on a full disk, the directories are deleted
	// nevertheless.
	faults = append(faults, s.save())
	s.deleteSoon()
	return errors.Join(faults...)
}

// released is a partition that ReleaseAll removes.
type released struct {
	Removal
	log   *Log             // nil if the partition is offline
	state datadir.Retained // content of the file "retained", if the data is kept
	name  string           // new name of the directory
	err   error            // failure to rename the directory
}

func newReleased(r Removal, log *Log, broken offline) *released {
	return &released{Removal: r, log: log,
		state: datadir.Retained{ID: r.ID, Released: time.Now(), Saved: broken.saved}}
}

// closeReleased closes a released partition's log.
func (s *Store) closeReleased(r *released) {
	if r.log == nil {
		return
	}
	if r.Retain {
		err := r.log.close()
		if err != nil {
			s.opts.Logger.Warn("failed to close the log of a removed partition", "partition", r.ID,
				"error", err)
		}
		r.state.Clean = err == nil
	} else {
		r.log.discard()
	}
	r.state.Saved = r.log.checkpointState()
}

// renameReleased renames the directories of released partitions. Once the renames are durable, the
// checkpoints may omit the partitions, and the data may be deleted. If the sync fails, each
// directory may have either name after a crash, and a start handles both.
func (s *Store) renameReleased(all []*released) (faults []error) {
	// No checkpoints may be written meanwhile. Store.save removes the file "retained" of a reopened
	// log, and could remove this log's new file.
	s.saving.Lock()
	defer s.saving.Unlock()
	for _, r := range all {
		r.err = s.renameOne(r)
	}
	synced := s.opts.FS.SyncDir(s.opts.Dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if r.err == nil {
			r.err = synced
		}
		s.mu.logs.remove(r.ID)
		if r.err != nil {
			// The log is closed already, so the partition is offline until another release succeeds
			// or the store is opened again.
			r.err = fmt.Errorf("%w: release log %s: %w", ErrStorage, r.ID, r.err)
			s.mu.offline[r.ID] = offline{err: r.err, saved: r.state.Saved}
			faults = append(faults, r.err)
			continue
		}
		delete(s.mu.offline, r.ID)
		delete(s.mu.reopened, r.ID)
		if !r.Retain {
			s.mu.released = append(s.mu.released, r.name)
		}
	}
	return faults
}

// renameOne renames a released partition's directory.
func (s *Store) renameOne(r *released) error {
	dir := filepath.Join(s.opts.Dir, r.ID.String())
	r.name = datadir.ReleasedName(r.ID, datadir.NewID(), datadir.DeleteSuffix)
	if r.Retain {
		s.forgetReopened(r.ID) // Store.save must not remove the new file "retained"
		if err := r.state.Write(s.opts.FS, dir); err != nil {
			return err
		}
		r.name = s.retainedName(r.ID, dir)
	}
	return s.opts.FS.Rename(dir, filepath.Join(s.opts.Dir, r.name))
}

// deleteReleasedDirectories is the function of the goroutine that deletes the directories of
// released partitions. Deleting a large directory takes seconds, and flushes must not wait for it.
// If the store stops before all directories are deleted, the next start deletes the remaining ones.
func (s *Store) deleteReleasedDirectories() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.doomed:
		}
		for s.deleteNext() {
			select {
			case <-s.stop:
				return
			default:
			}
		}
	}
}

// deleteNext deletes one released partition's directory, and reports whether there was one.
func (s *Store) deleteNext() bool {
	s.mu.Lock()
	if len(s.mu.released) == 0 {
		s.mu.Unlock()
		return false
	}
	name := s.mu.released[0]
	s.mu.released = s.mu.released[1:]
	s.mu.Unlock()
	if err := s.opts.FS.RemoveAll(filepath.Join(s.opts.Dir, name)); err != nil {
		s.opts.Logger.Warn("failed to delete the directory of a removed partition",
			"directory", name, "error", err)
	}
	return true
}

// deleteSoon wakes the goroutine that deletes directories. It never blocks.
func (s *Store) deleteSoon() {
	select {
	case s.doomed <- struct{}{}:
	default: // a wake-up is pending
	}
}

// ErrNotReleased is the error of RemoveRetained if a matching partition is still open or offline.
var ErrNotReleased = errors.New("the partition has not been released")

// Retained returns the retained logs, sorted by partition and time of release. It omits a directory
// that cannot be read, or is reopened or removed meanwhile.
func (s *Store) Retained() ([]RetainedLog, error) {
	// Store.changes is not acquired: metadata images must not wait for the listing of many files.
	return datadir.MeasureRetained(s.opts.FS, s.opts.Dir, s.opts.Logger)
}

// RemoveRetained removes the retained logs that match, and returns them. A goroutine of the store
// deletes the data. When RemoveRetained returns without an error, the removal is durable, and
// CreateAll finds none of these logs: after a crash the next start deletes the remaining data.
//
// If a matching partition is open or offline, the error wraps ErrNotReleased, and RemoveRetained
// removes only the other matching logs.
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

// notReleased returns an error if a partition that is open or offline matches. It reads the topic
// id of an offline partition from the partition's directory. If the topic id cannot be read, the
// partition does not match.
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
