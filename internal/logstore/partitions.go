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

// LogSpec is a log that Create makes.
type LogSpec struct {
	ID       PartitionID
	Topic    TopicID
	Settings topicconfig.Settings
	Retain   bool // reclaim policy
}

// makeWorkers is how many logs are made at once. Each takes some ten syncs one after the other,
// waits for the disk meanwhile, and those of several logs share a write of the filesystem's
// journal.
const makeWorkers = 16

// CreateResult is what became of a Wanted.
type CreateResult struct {
	Log *Log // nil with an error
	Err error
}

// Create is CreateAll for one log.
func (s *Store) Create(id PartitionID, topic TopicID, settings topicconfig.Settings,
	retain bool) (*Log, error) {
	made := s.CreateAll([]LogSpec{{id, topic, settings, retain}})
	return made[0].Log, made[0].Err
}

// CreateAll makes partitions' logs, or returns those that are there for the same topic id,
// configured, in the order of wanted. A log retained by Release under the same name is taken up
// again under the new topic id, the newest if there are several; one of another topic id that was
// not released is ErrOtherTopic. It fails with ErrStorage when the disk does, or when the log that
// is there is offline; with ErrClosed once the store is closed.
//
// The names must be ones that Kafka allows, for under any other a start does not find the log
// (parsePartition), and all different.
//
// The checkpoints are written once for all: one log at a time, a thousand logs would write lines
// for half a million.
func (s *Store) CreateAll(wanted []LogSpec) []CreateResult {
	s.changes.Lock()
	defer s.changes.Unlock()
	made := make([]CreateResult, len(wanted))
	var missing []int
	for i, w := range wanted {
		var there bool
		if made[i], there = s.present(w); !there {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return made
	}
	aside, err := s.newestRetainedDirs()
	if err == nil {
		// The directories of all are durable before any of them is opened.
		inParallel(missing, s.opts.workers(makeWorkers),
			func(i int) { made[i].Err = s.makeDirectoryOf(wanted[i], aside[wanted[i].ID]) })
		err = s.opts.FS.SyncDir(s.opts.Dir)
	}
	inParallel(missing, s.opts.workers(makeWorkers), func(i int) {
		if made[i].Err = errors.Join(made[i].Err, err); made[i].Err == nil {
			// A retained log says itself whether it was closed in order.
			made[i].Log, _, made[i].Err = s.recover(wanted[i].ID,
				start{saved: checkpointState{recoveryPoint: unknownOffset}, clean: true, now: time.Now()})
		}
	})
	s.admit(wanted, made, missing)
	return made
}

// present returns what there is to say of a log without touching the disk, or nearly so; there is
// false if it has to be made.
func (s *Store) present(w LogSpec) (made CreateResult, there bool) {
	s.mu.Lock()
	log, broken, closed := s.mu.logs[w.ID], s.mu.offline[w.ID].err, s.mu.closed
	s.mu.Unlock()
	switch {
	case closed:
		return CreateResult{Err: ErrClosed}, true
	case broken != nil:
		return CreateResult{Err: broken}, true
	case log == nil:
		return CreateResult{}, false
	}
	if err := s.adopt(log, w.Topic); err != nil {
		return CreateResult{Err: err}, true
	}
	log.Configure(w.Settings, w.Retain)
	return CreateResult{Log: log}, true
}

// admit takes the logs that were made among the store's. Nobody has them yet, so their recovery
// points are on disk before the first append. Without one, recovery could not tell a gap that a
// crash tore from one that cleaning left (ADR 0015).
func (s *Store) admit(wanted []LogSpec, made []CreateResult, missing []int) {
	for _, i := range missing {
		id := wanted[i].ID
		if made[i].Err != nil {
			made[i].Err = fmt.Errorf("%w: create log %s: %w", ErrStorage, id, made[i].Err)
			continue
		}
		made[i].Log.Configure(wanted[i].Settings, wanted[i].Retain)
		s.mu.Lock()
		s.mu.logs[id] = made[i].Log
		s.mu.Unlock()
	}
	if err := s.save(); err != nil {
		s.opts.Logger.Warn("write the checkpoint of new logs; the next flush tries again", "logs",
			len(missing), "error", err)
	}
}

// adopt checks that a log belongs to the topic. A directory that names none (it came from
// elsewhere) is given the name.
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

// makeDirectoryOf makes the directory ready, the topic id and the policy in it durable before the
// first append: a new one, or the retained one (aside, "" if there is none). Its name is durable
// once the data directory is synced.
func (s *Store) makeDirectoryOf(w LogSpec, aside string) error {
	dir := filepath.Join(s.opts.Dir, w.ID.String())
	if _, err := s.opts.FS.Stat(dir); err == nil {
		// An earlier Create failed when the directory was there already: it is what was chosen
		// then. A retained one cannot take its place, and must not be changed.
		aside = ""
	}
	from := dir
	if aside != "" {
		from = filepath.Join(s.opts.Dir, aside)
	} else if err := s.opts.FS.MkdirAll(dir); err != nil {
		return err
	}
	if err := writePolicy(s.opts.FS, from, w.Retain); err != nil {
		return err
	}
	if err := writeTopicID(s.opts.FS, from, w.Topic); err != nil {
		return err
	}
	if aside == "" {
		return nil
	}
	if err := s.opts.FS.Rename(from, dir); err != nil {
		return err
	}
	s.opts.Logger.Info("retained log taken up again", "partition", w.ID, "directory", aside,
		"topicID", w.Topic)
	return nil
}

// newestRetainedDirs returns, of each partition, the directory that Release put aside last.
func (s *Store) newestRetainedDirs() (map[PartitionID]string, error) {
	entries, err := s.opts.FS.ReadDir(s.opts.Dir)
	if err != nil {
		return nil, err
	}
	newest, released := map[PartitionID]string{}, map[PartitionID]time.Time{}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), retainedSuffix) {
			continue
		}
		aside, ok, err := readRetained(s.opts.FS, filepath.Join(s.opts.Dir, entry.Name()))
		if err != nil {
			s.opts.Logger.Warn("retained directory unreadable", "directory", entry.Name(), "error",
				err)
			continue
		}
		if _, known := newest[aside.id]; ok &&
			(!known || aside.released.After(released[aside.id])) {
			newest[aside.id], released[aside.id] = entry.Name(), aside.released
		}
	}
	return newest, nil
}

// Release ends a partition here: its data is deleted, or, with retain, moved aside for a later
// Create. Slices that are held can be read on. A partition that is not here is released already: no
// error. After ErrStorage the partition is offline, and Release may be called again. Deletion
// itself is left to the store's goroutine.
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
		aside.clean, aside.saved = err == nil, log.checkpointState()
	}
	if err := s.renameReleased(aside, retain); err != nil {
		err = fmt.Errorf("%w: release log %s: %w", ErrStorage, id, err)
		s.mu.Lock()
		// The log is closed, so it is offline until a Release succeeds or the store is opened
		// again.
		delete(s.mu.logs, id)
		s.mu.offline[id] = offline{err: err, saved: aside.saved}
		s.mu.Unlock()
		return err
	}
	s.wakeUp()
	return s.save()
}

// renameReleased renames the directory. Once that is durable the checkpoints may forget the partition,
// and the data may go; should the sync fail, either name may be there after a crash, and both are
// understood.
func (s *Store) renameReleased(aside retained, retain bool) error {
	// No checkpoints are written meanwhile: they would remove the file "retained" if it was there
	// since the log was taken up.
	s.saving.Lock()
	defer s.saving.Unlock()
	dir := filepath.Join(s.opts.Dir, aside.id.String())
	name := releasedName(aside.id, newID(), deleteSuffix)
	if retain {
		s.forgetReopened(aside.id) // the file is written anew, and stays
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
	delete(s.mu.reopened, aside.id)
	if !retain {
		s.mu.released = append(s.mu.released, name)
	}
	return nil
}

// retainedName names a directory after its topic id; with a random id if that is unreadable (the
// log may be offline for it), or taken (the id of a directory from elsewhere is zero, and that can
// come twice).
func (s *Store) retainedName(id PartitionID, dir string) string {
	topic, err := readTopicID(s.opts.FS, dir)
	if err != nil {
		topic = newID()
	}
	name := releasedName(id, topic, retainedSuffix)
	if _, err := s.opts.FS.Stat(filepath.Join(s.opts.Dir, name)); errors.Is(err, fs.ErrNotExist) {
		return name
	}
	return releasedName(id, newID(), retainedSuffix)
}
