package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNotReleased is the error of RemoveRetained if a matching partition is still open or offline.
var ErrNotReleased = errors.New("the partition has not been released")

// RetainedLog is the log of a partition that was released with its data.
type RetainedLog struct {
	ID        PartitionID
	Topic     TopicID // zero if it is not readable
	Released  time.Time
	SizeBytes int64 // of all files of the directory
	// LogStart and HighWatermark are those of the release. A compacted log has fewer records than
	// offsets in between.
	LogStart, HighWatermark int64

	directory string // name in the data directory
}

// Retained returns the retained logs, sorted by partition and time of release. A directory that
// cannot be read, or is reopened or removed meanwhile, is left out.
func (s *Store) Retained() ([]RetainedLog, error) {
	// The lock changes is not acquired: metadata images must not wait for the listing of many
	// files.
	all, err := s.retainedLogs()
	if err != nil {
		return nil, err
	}
	measured := make([]RetainedLog, 0, len(all))
	for _, r := range all {
		if s.measure(&r) == nil {
			measured = append(measured, r)
		}
	}
	return measured, nil
}

// measure reads the topic id and the size of a retained log.
func (s *Store) measure(r *RetainedLog) error {
	dir := filepath.Join(s.opts.Dir, r.directory)
	r.Topic = s.topicOf(dir)
	files, err := s.opts.FS.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", r.directory, err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return fmt.Errorf("read the size of a file in %s: %w", r.directory, err)
		}
		r.SizeBytes += info.Size()
	}
	return nil
}

// retainedLogs returns the retained logs without topic ids and sizes, sorted by partition and time
// of release. A directory that cannot be read is left out with a warning.
func (s *Store) retainedLogs() ([]RetainedLog, error) {
	entries, err := s.opts.FS.ReadDir(s.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list data directory: %w", err)
	}
	var all []RetainedLog
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), retainedSuffix) {
			continue
		}
		state, ok, err := readRetained(s.opts.FS, filepath.Join(s.opts.Dir, entry.Name()))
		if err != nil {
			s.opts.Logger.Warn("failed to read the kept log of a deleted topic", "directory",
				entry.Name(), "error", err)
		}
		if err != nil || !ok {
			continue
		}
		all = append(all, RetainedLog{ID: state.id, Released: state.released,
			LogStart: state.saved.LogStart, HighWatermark: state.saved.HighWatermark,
			directory: entry.Name()})
	}
	slices.SortStableFunc(all, func(a, b RetainedLog) int {
		if by := a.ID.Compare(b.ID); by != 0 {
			return by
		}
		return a.Released.Compare(b.Released)
	})
	return all, nil
}

// topicOf returns the topic id in a directory, or the zero id if it cannot be read.
func (s *Store) topicOf(dir string) TopicID {
	topic, err := readTopicID(s.opts.FS, dir)
	if err != nil {
		return TopicID{}
	}
	return topic
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
	all, err := s.retainedLogs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	doomed := slices.DeleteFunc(all, func(r RetainedLog) bool {
		return !match(r.ID, s.topicOf(filepath.Join(s.opts.Dir, r.directory)))
	})
	faults := []error{s.notReleased(match)}
	var names []string
	var removed []RetainedLog
	for _, r := range doomed {
		name := releasedName(r.ID, newID(), deleteSuffix)
		if err := s.opts.FS.Rename(filepath.Join(s.opts.Dir, r.directory),
			filepath.Join(s.opts.Dir, name)); err != nil {
			faults = append(faults, fmt.Errorf("%w: remove %s: %w", ErrStorage, r.directory, err))
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
		if match(id, s.topicOf(filepath.Join(s.opts.Dir, id.String()))) {
			return fmt.Errorf("%w: %s is offline", ErrNotReleased, id)
		}
	}
	return nil
}
