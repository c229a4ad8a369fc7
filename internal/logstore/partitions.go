package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// LogSpec describes a log that CreateAll creates.
type LogSpec struct {
	ID       PartitionID
	Topic    TopicID
	Settings topicconfig.Settings
	Retain   bool // reclaim policy; see Log.Retain
}

// createWorkers is the number of logs that are created concurrently. Creating a log needs about ten
// sequential syncs, and the filesystem writes its journal once for the concurrent syncs of several
// logs.
const createWorkers = 16

// CreateResult is the result for one LogSpec.
type CreateResult struct {
	Log *Log // nil if Err is not nil
	Err error
}

// Create creates one log in the same way as CreateAll.
func (s *Store) Create(id PartitionID, topic TopicID, settings topicconfig.Settings,
	retain bool) (*Log, error) {
	results := s.CreateAll([]LogSpec{{id, topic, settings, retain}})
	return results[0].Log, results[0].Err
}

// CreateAll creates the logs of several partitions. The results are in the order of specs. If the
// log of a partition exists with the same topic id, CreateAll configures and returns it. If Release
// kept a log of the same partition, CreateAll reopens the log that was released last, with the new
// topic id.
//
// The error of a result is ErrOtherTopic if a log with another topic id exists and was not
// released. It is ErrStorage if the disk failed or the existing log is offline, and ErrClosed if
// the store is closed.
//
// The partitions must be different, and Kafka must allow their names, because a start does not find
// a log under another name (datadir.ParsePartition).
//
// The checkpoints are written once for all logs. If each of a thousand logs wrote them, half a
// million lines would be written in total.
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
		parallel.Each(missing, s.opts.workers(createWorkers),
			func(i int) { results[i].Err = s.makeDirectoryOf(specs[i], dirs[specs[i].ID]) })
		err = s.opts.FS.SyncDir(s.opts.Dir)
	}
	parallel.Each(missing, s.opts.workers(createWorkers), func(i int) {
		if results[i].Err = errors.Join(results[i].Err, err); results[i].Err == nil {
			// clean is true only for a new log. For a reopened log, recover also uses the file
			// "retained", which states whether the log was closed cleanly.
			results[i].Log, _, results[i].Err = s.recover(specs[i].ID, s.startOfNew(specs[i].ID))
		}
	})
	s.addCreated(specs, results, missing)
	return results
}

// startOfNew returns the information about a log that CreateAll opens. It is empty unless the log's
// directory was missing when the store was opened.
func (s *Store) startOfNew(id PartitionID) start {
	s.mu.Lock()
	defer s.mu.Unlock()
	saved, missing := s.mu.missing[id]
	if !missing {
		saved = checkpoint.State{RecoveryPoint: checkpoint.UnknownOffset}
	}
	return start{saved: saved, missing: missing, clean: true, now: time.Now()}
}

// existing returns the result for a log that exists, mostly without access to the disk. If the log
// has to be created, there is no result: the second return value is false.
func (s *Store) existing(w LogSpec) (result CreateResult, there bool) {
	s.mu.Lock()
	log, broken, closed := s.mu.logs.get(w.ID), s.mu.offline[w.ID].err, s.mu.closed
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

// addCreated adds the created logs to the store, and writes the checkpoints. No caller can use the
// logs yet, so the logs' recovery points are on disk before the first append. Without a recovery
// point, recovery could not distinguish an offset gap left by cleaning from lost data (ADR 0015).
func (s *Store) addCreated(specs []LogSpec, results []CreateResult, missing []int) {
	for _, i := range missing {
		id := specs[i].ID
		if results[i].Err != nil {
			results[i].Err = fmt.Errorf("%w: create log %s: %w", ErrStorage, id, results[i].Err)
			continue
		}
		results[i].Log.Configure(specs[i].Settings, specs[i].Retain)
		s.mu.Lock()
		delete(s.mu.missing, id) // the loss is now stored in the directory
		s.mu.logs.put(results[i].Log)
		s.mu.Unlock()
	}
	if err := s.save(); err != nil {
		s.opts.Logger.Warn("failed to write the checkpoint of new logs; the next flush tries again",
			"logs", len(missing), "error", err)
	}
}

// adopt checks that a log belongs to the topic. If the log's directory contains no topic id,
// because the directory was copied from elsewhere, adopt stores the topic's id.
func (s *Store) adopt(log *Log, topic TopicID) error {
	switch log.TopicID() {
	case topic:
		return nil
	case TopicID{}:
		if err := datadir.WriteTopicID(s.opts.FS, log.dir, topic); err != nil {
			return fmt.Errorf("%w: create log %s: %w", ErrStorage, log.id, err)
		}
		log.topic.Store(&topic)
		return nil
	}
	return fmt.Errorf("create log %s: %w: %s, not %s", log.id, ErrOtherTopic, log.TopicID(), topic)
}

// makeDirectoryOf creates a log's directory, or renames retainedDir if retainedDir is not "". In
// both cases the directory contains a durable topic id and reclaim policy. The name of the
// directory is durable only after the data directory is synced.
func (s *Store) makeDirectoryOf(w LogSpec, retainedDir string) error {
	dir := filepath.Join(s.opts.Dir, w.ID.String())
	if _, err := s.opts.FS.Stat(dir); err == nil {
		// An earlier Create failed after it had created the directory. That directory is used now,
		// so retainedDir cannot be renamed and must not be changed.
		retainedDir = ""
	}
	from := dir
	if retainedDir != "" {
		from = filepath.Join(s.opts.Dir, retainedDir)
	} else if err := s.opts.FS.MkdirAll(dir); err != nil {
		return err
	}
	if err := datadir.WritePolicy(s.opts.FS, from, w.Retain); err != nil {
		return err
	}
	if err := datadir.WriteTopicID(s.opts.FS, from, w.Topic); err != nil {
		return err
	}
	if retainedDir == "" {
		return nil
	}
	if err := s.opts.FS.Rename(from, dir); err != nil {
		return err
	}
	s.opts.Logger.Info("kept log of a deleted topic reopened", "partition", w.ID, "directory",
		retainedDir, "topicID", w.Topic)
	return nil
}

// newestRetainedDirs returns, for each partition with retained logs, the directory of the log that
// was released last.
func (s *Store) newestRetainedDirs() (map[PartitionID]string, error) {
	all, err := datadir.ListRetained(s.opts.FS, s.opts.Dir, s.opts.Logger)
	if err != nil {
		return nil, err
	}
	newest, released := map[PartitionID]string{}, map[PartitionID]time.Time{}
	for _, r := range all {
		if _, known := newest[r.ID]; !known || r.Released.After(released[r.ID]) {
			newest[r.ID], released[r.ID] = r.Directory, r.Released
		}
	}
	return newest, nil
}

// retainedName returns the name for a retained log's directory, which contains the topic id. It
// contains a random id instead in two cases. Either the topic id is unreadable, which may be the
// reason that the log is offline, or the name already exists, because directories that were copied
// from elsewhere may have no topic id.
func (s *Store) retainedName(id PartitionID, dir string) string {
	topic, err := datadir.ReadTopicID(s.opts.FS, dir)
	if err != nil {
		topic = datadir.NewID()
	}
	name := datadir.ReleasedName(id, topic, datadir.RetainedSuffix)
	if _, err := s.opts.FS.Stat(filepath.Join(s.opts.Dir, name)); errors.Is(err, fs.ErrNotExist) {
		return name
	}
	return datadir.ReleasedName(id, datadir.NewID(), datadir.RetainedSuffix)
}
