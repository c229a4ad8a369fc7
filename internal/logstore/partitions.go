package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// Create makes a partition's log, or returns the one that is there for the same topic id, configured. A log retained by Release
// under the same name is taken up again under the new topic id, the newest if there are several; one of another topic id that
// was not released is ErrOtherTopic. It fails with ErrStorage when the disk does, or when the log that is there is offline;
// with ErrClosed once the store is closed.
//
// The name must be one that Kafka allows: under any other a start does not find the log (parsePartition).
func (s *Store) Create(id PartitionID, topic TopicID, settings topicconfig.Settings, retain bool) (*Log, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.mu.Lock()
	log, broken, closed := s.mu.logs[id], s.mu.offline[id].err, s.mu.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case broken != nil:
		return nil, broken
	case log != nil:
		if err := s.adopt(log, topic); err != nil {
			return nil, err
		}
		log.Configure(settings, retain)
		return log, nil
	}
	log, err := s.makeOrTakeUp(id, topic, retain)
	if err != nil {
		return nil, fmt.Errorf("%w: create log %s: %w", ErrStorage, id, err)
	}
	log.Configure(settings, retain)
	s.mu.Lock()
	s.mu.logs[id] = log
	s.mu.Unlock()
	// The recovery point is on disk before the first append. Without one, recovery could not tell a gap that a crash tore from one
	// that cleaning left (ADR 0015).
	if err := s.save(); err != nil {
		s.opts.Logger.Warn("write the checkpoint of a new log; the next flush tries again", "partition", id, "error", err)
	}
	return log, nil
}

// adopt checks that a log belongs to the topic. A directory that names none (it came from elsewhere) is given the name.
func (s *Store) adopt(log *Log, topic TopicID) error {
	switch log.TopicID() {
	case topic:
		return nil
	case TopicID{}:
		if err := writeTopicID(s.opts.FS, log.dir, topic); err != nil {
			return fmt.Errorf("%w: create log %s: %w", ErrStorage, log.id, err)
		}
		log.topic.Store(&topic)
		return nil
	}
	return fmt.Errorf("create log %s: %w: %s, not %s", log.id, ErrOtherTopic, log.TopicID(), topic)
}

// makeOrTakeUp makes the directory ready, the topic id and the policy in it durable before the first append, and opens it.
func (s *Store) makeOrTakeUp(id PartitionID, topic TopicID, retain bool) (*Log, error) {
	dir := filepath.Join(s.opts.Dir, id.String())
	aside, err := s.newestRetained(id)
	if err != nil {
		return nil, err
	}
	if _, err := s.opts.FS.Stat(dir); err == nil {
		// An earlier Create failed when the directory was there already: it is what was chosen then. A retained one cannot take
		// its place, and must not be changed.
		aside = ""
	}
	from := dir
	if aside != "" {
		from = filepath.Join(s.opts.Dir, aside)
	} else if err := s.opts.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := writePolicy(s.opts.FS, from, retain); err != nil {
		return nil, err
	}
	if err := writeTopicID(s.opts.FS, from, topic); err != nil {
		return nil, err
	}
	if aside != "" {
		if err := s.opts.FS.Rename(from, dir); err != nil {
			return nil, err
		}
		s.opts.Logger.Info("retained log taken up again", "partition", id, "directory", aside, "topicID", topic)
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return nil, err
	}
	// A retained log says itself whether it was closed in order.
	log, _, err := s.recover(id, saved{recoveryPoint: unknownOffset}, true)
	return log, err
}

// newestRetained returns the directory that Release put aside last for a partition, "" if there is none.
func (s *Store) newestRetained(id PartitionID) (string, error) {
	entries, err := s.opts.FS.ReadDir(s.opts.Dir)
	if err != nil {
		return "", err
	}
	newest, released := "", time.Time{}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), retainedSuffix) {
			continue
		}
		aside, ok, err := readRetained(s.opts.FS, filepath.Join(s.opts.Dir, entry.Name()))
		if err != nil {
			s.opts.Logger.Warn("retained directory unreadable", "directory", entry.Name(), "error", err)
			continue
		}
		if ok && aside.id == id && (newest == "" || aside.released.After(released)) {
			newest, released = entry.Name(), aside.released
		}
	}
	return newest, nil
}

// Release ends a partition here: its data is deleted, or, with retain, moved aside for a later Create. Slices that are held
// can be read on. A partition that is not here is released already: no error. After ErrStorage the partition is offline, and
// Release may be called again. Deletion itself is left to the store's goroutine.
func (s *Store) Release(id PartitionID, retain bool) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.mu.Lock()
	log, broken, closed := s.mu.logs[id], s.mu.offline[id], s.mu.closed
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case log == nil && broken.err == nil:
		return nil
	}
	aside := retained{id: id, released: time.Now(), saved: broken.saved}
	if log != nil {
		err := log.close()
		if err != nil {
			s.opts.Logger.Warn("close a released log", "partition", id, "error", err)
		}
		aside.clean, aside.saved = err == nil, log.saved()
	}
	if err := s.putAside(aside, retain); err != nil {
		err = fmt.Errorf("%w: release log %s: %w", ErrStorage, id, err)
		s.mu.Lock()
		// The log is closed, so it is offline until a Release succeeds or the store is opened again.
		delete(s.mu.logs, id)
		s.mu.offline[id] = offline{err: err, saved: aside.saved}
		s.mu.Unlock()
		return err
	}
	s.awake()
	return s.save()
}

// putAside renames the directory. Once that is durable the checkpoints may forget the partition, and the data may go; should the
// sync fail, either name may be there after a crash, and both are understood.
func (s *Store) putAside(aside retained, retain bool) error {
	// No checkpoints are written meanwhile: they would remove the file "retained" if it was there since the log was taken up.
	s.saving.Lock()
	defer s.saving.Unlock()
	dir := filepath.Join(s.opts.Dir, aside.id.String())
	name := asideName(aside.id, newID(), deleteSuffix)
	if retain {
		s.forgetSettled(aside.id) // the file is written anew, and stays
		if err := aside.write(s.opts.FS, dir); err != nil {
			return err
		}
		name = s.retainedName(aside.id, dir)
	}
	if err := s.opts.FS.Rename(dir, filepath.Join(s.opts.Dir, name)); err != nil {
		return err
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.logs, aside.id)
	delete(s.mu.offline, aside.id)
	delete(s.mu.settled, aside.id)
	if !retain {
		s.mu.doomed = append(s.mu.doomed, name)
	}
	return nil
}

// retainedName names a directory after its topic id; with a random id if that is unreadable (the log may be offline for it), or
// taken (the id of a directory from elsewhere is zero, and that can come twice).
func (s *Store) retainedName(id PartitionID, dir string) string {
	topic, err := readTopicID(s.opts.FS, dir)
	if err != nil {
		topic = newID()
	}
	name := asideName(id, topic, retainedSuffix)
	if _, err := s.opts.FS.Stat(filepath.Join(s.opts.Dir, name)); errors.Is(err, fs.ErrNotExist) {
		return name
	}
	return asideName(id, newID(), retainedSuffix)
}
