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

// LogSpec describes a log that CreateAll creates.
type LogSpec struct {
	ID       PartitionID
	Topic    TopicID
	Settings topicconfig.Settings
	Retain   bool // reclaim policy
}

// createWorkers is the number of logs that are created concurrently. Creating a log needs some ten
// sequential syncs, and the syncs of several logs share a write of the filesystem's journal.
const createWorkers = 16

// CreateResult is the outcome for one LogSpec.
type CreateResult struct {
	Log *Log // nil with an error
	Err error
}

// Create creates one log, as CreateAll does.
func (s *Store) Create(id PartitionID, topic TopicID, settings topicconfig.Settings,
	retain bool) (*Log, error) {
	results := s.CreateAll([]LogSpec{{id, topic, settings, retain}})
	return results[0].Log, results[0].Err
}

// CreateAll creates the logs of partitions, or configures and returns those that exist for the same
// topic id; results are in the order of specs. It reopens a log that Release retained under the
// same name, the newest if there are several, with the new topic id. The result for a log of
// another topic id that was not released is ErrOtherTopic; ErrStorage if the disk failed or the
// existing log is offline; ErrClosed once the store is closed.
//
// The names must be different, and be allowed by Kafka: a start does not find a log under another
// name (parsePartition).
//
// The checkpoints are written once for all logs: if each of a thousand logs wrote them, they would
// write half a million lines.
func (s *Store) CreateAll(specs []LogSpec) []CreateResult {
	s.changes.Lock()
	defer s.changes.Unlock()
	results := make([]CreateResult, len(specs))
	var missing []int
	for i, spec := range specs {
		var there bool
		if results[i], there = s.existing(spec); !there {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return results
	}
	dirs, err := s.newestRetainedDirs()
	if err == nil {
		// All directories are durable before any log is opened.
		inParallel(missing, s.opts.workers(createWorkers),
			func(i int) { results[i].Err = s.makeDirectoryOf(specs[i], dirs[specs[i].ID]) })
		err = s.opts.FS.SyncDir(s.opts.Dir)
	}
	inParallel(missing, s.opts.workers(createWorkers), func(i int) {
		if results[i].Err = errors.Join(results[i].Err, err); results[i].Err == nil {
			// The file "retained" of a retained log contains whether the log was closed cleanly.
			results[i].Log, _, results[i].Err = s.recover(specs[i].ID,
				start{saved: checkpointState{recoveryPoint: unknownOffset}, clean: true,
					now: time.Now()})
		}
	})
	s.addCreated(specs, results, missing)
	return results
}

// existing returns the result for a log that exists, mostly without disk access; there is false if
// the log has to be created.
func (s *Store) existing(w LogSpec) (result CreateResult, there bool) {
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

// addCreated adds the logs that were created to those of the store. No caller can use them yet, so
// their recovery points are on disk before the first append. Without one, recovery could not
// distinguish a gap from a crash from one that cleaning left (ADR 0015).
func (s *Store) addCreated(specs []LogSpec, results []CreateResult, missing []int) {
	for _, i := range missing {
		id := specs[i].ID
		if results[i].Err != nil {
			results[i].Err = fmt.Errorf("%w: create log %s: %w", ErrStorage, id, results[i].Err)
			continue
		}
		results[i].Log.Configure(specs[i].Settings, specs[i].Retain)
		s.mu.Lock()
		s.mu.logs[id] = results[i].Log
		s.mu.Unlock()
	}
	if err := s.save(); err != nil {
		s.opts.Logger.Warn("failed to write the checkpoint of new logs; the next flush tries again",
			"logs",
			len(missing), "error", err)
	}
}

// adopt checks that a log belongs to the topic. It stores the topic id in a directory that has none
// because it was copied from elsewhere.
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

// makeDirectoryOf prepares the directory, with a durable topic id and reclaim policy before the
// first append. It creates a new directory, or renames retainedDir if that is not "". The name of
// the directory is durable once the data directory is synced.
func (s *Store) makeDirectoryOf(w LogSpec, retainedDir string) error {
	dir := filepath.Join(s.opts.Dir, w.ID.String())
	if _, err := s.opts.FS.Stat(dir); err == nil {
		// An earlier Create failed after it had created the directory: this directory is used. A
		// retained directory cannot replace it, and must not be changed.
		retainedDir = ""
	}
	from := dir
	if retainedDir != "" {
		from = filepath.Join(s.opts.Dir, retainedDir)
	} else if err := s.opts.FS.MkdirAll(dir); err != nil {
		return err
	}
	if err := writePolicy(s.opts.FS, from, w.Retain); err != nil {
		return err
	}
	if err := writeTopicID(s.opts.FS, from, w.Topic); err != nil {
		return err
	}
	if retainedDir == "" {
		return nil
	}
	if err := s.opts.FS.Rename(from, dir); err != nil {
		return err
	}
	s.opts.Logger.Info("retained log reopened", "partition", w.ID, "directory", retainedDir,
		"topicID", w.Topic)
	return nil
}

// newestRetainedDirs returns, for each partition, the directory that Release retained last.
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
		state, ok, err := readRetained(s.opts.FS, filepath.Join(s.opts.Dir, entry.Name()))
		if err != nil {
			s.opts.Logger.Warn("failed to read a retained directory", "directory", entry.Name(),
				"error",
				err)
			continue
		}
		if _, known := newest[state.id]; ok &&
			(!known || state.released.After(released[state.id])) {
			newest[state.id], released[state.id] = entry.Name(), state.released
		}
	}
	return newest, nil
}

// Release removes a partition from this broker: its data is deleted, or, with retain, kept for a
// later Create. Slices that are held can still be read. Releasing an unknown partition succeeds.
// After ErrStorage the partition is offline, and Release may be called again. The store's goroutine
// deletes the data.
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
	state := retained{id: id, released: time.Now(), saved: broken.saved}
	if log != nil {
		err := log.close()
		if err != nil {
			s.opts.Logger.Warn("failed to close the log of a removed partition", "partition", id,
				"error", err)
		}
		state.clean, state.saved = err == nil, log.checkpointState()
	}
	if err := s.renameReleased(state, retain); err != nil {
		err = fmt.Errorf("%w: release log %s: %w", ErrStorage, id, err)
		s.mu.Lock()
		// The log is closed, so the partition is offline until a Release succeeds or the store is
		// opened again.
		delete(s.mu.logs, id)
		s.mu.offline[id] = offline{err: err, saved: state.saved}
		s.mu.Unlock()
		return err
	}
	s.wakeUp()
	return s.save()
}

// renameReleased renames the directory. Once the rename is durable, the checkpoints may omit the
// partition, and the data may be deleted. If the sync fails, either name may exist after a crash,
// and a start handles both.
func (s *Store) renameReleased(state retained, retain bool) error {
	// No checkpoints are written meanwhile: they would remove the file "retained" if it existed
	// since the log was reopened.
	s.saving.Lock()
	defer s.saving.Unlock()
	dir := filepath.Join(s.opts.Dir, state.id.String())
	name := releasedName(state.id, newID(), deleteSuffix)
	if retain {
		s.forgetReopened(state.id) // the file is written again, and must not be removed
		if err := state.write(s.opts.FS, dir); err != nil {
			return err
		}
		name = s.retainedName(state.id, dir)
	}
	if err := s.opts.FS.Rename(dir, filepath.Join(s.opts.Dir, name)); err != nil {
		return err
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.logs, state.id)
	delete(s.mu.offline, state.id)
	delete(s.mu.reopened, state.id)
	if !retain {
		s.mu.released = append(s.mu.released, name)
	}
	return nil
}

// retainedName returns the name for a retained directory, with its topic id; with a random id if
// the topic id is unreadable (the log may be offline because of that), or if the name exists (the
// id of a directory from elsewhere is zero, which can occur twice).
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
