package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// save writes the checkpoint files whose content has changed. Each file is replaced atomically. The
// files may describe different moments, because recovery only relies on values that the log itself
// confirms.
//
// save reads the state of every log before it writes any file. After the writes it reports to each
// log the recovery point that was written. If a flush advances a recovery point meanwhile, the next
// save writes the new value. The caller holds no lock of a log (doc.go).
func (s *Store) save() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	all := make(map[PartitionID]checkpoint.State, s.mu.logs.len()+len(s.mu.offline))
	for id, o := range s.mu.offline {
		all[id] = o.saved
	}
	maps.Copy(all, s.mu.missing)
	s.mu.Unlock()
	logs := s.Logs()
	for _, log := range logs {
		all[log.id] = log.checkpointState()
	}
	if err := s.writeCheckpoints(all); err != nil {
		return err
	}
	for _, log := range logs {
		log.noteCheckpointed(all[log.id].RecoveryPoint)
		log.savedStart.Store(all[log.id].LogStart)
	}
	return s.removeRetainedFiles(all)
}

// removeRetainedFiles removes the file "retained" of each reopened log that the checkpoints on disk
// list. A log that is being reopened is added to mu.reopened before it is added to mu.logs. So no
// checkpoint lists the log before the partition is in mu.reopened. If the checkpoints do not list
// the log yet, its file stays until a later save. The caller holds Store.saving.
//
// The removal is synced. Otherwise a crash during a later truncation could restore the file with
// its higher recovery point, and recovery would not detect segments that the truncation removed.
func (s *Store) removeRetainedFiles(listed map[PartitionID]checkpoint.State) error {
	s.mu.Lock()
	var ids []PartitionID
	for id := range s.mu.reopened {
		if _, ok := listed[id]; ok {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		name := filepath.Join(s.opts.Dir, id.String(), retainedFile)
		if err := s.opts.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the file %q of a reopened log: %w", retainedFile, err)
		}
		if err := s.opts.FS.SyncDir(filepath.Dir(name)); err != nil {
			return fmt.Errorf("sync the directory of a reopened log: %w", err)
		}
		s.forgetReopened(id)
	}
	return nil
}

// forgetReopened removes a partition from mu.reopened, so that save does not remove the partition's
// file "retained".
func (s *Store) forgetReopened(id PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.reopened, id)
}

// writeCheckpoints writes each file whose content differs from the last one that was written. Most
// rounds of most clusters change no file, and each written file costs two syncs. If writing a file
// fails, the later files of this round are not written. The earlier files stay on disk, which is
// safe.
func (s *Store) writeCheckpoints(all map[PartitionID]checkpoint.State) error {
	aborted := make(map[PartitionID]checkpoint.AbortedCounts, len(all))
	progress := make(map[PartitionID]checkpoint.CleaningState, len(all))
	for id, of := range all {
		aborted[id] = of.Aborted
		progress[id] = checkpoint.CleaningState{TombstoneClean: of.TombstoneClean,
			Progress: of.Progress}
	}
	// The aborted counts are written before the recovery point. Recovery does not scan below the
	// recovery point, so it detects a lost transaction index there only by these counts.
	if err := s.writeCheckpoint(checkpoint.AbortedFile,
		checkpoint.EncodeAborted(aborted)); err != nil {
		return err
	}
	if err := s.writeCheckpoint(checkpoint.CleaningFile,
		checkpoint.EncodeCleaning(progress)); err != nil {
		return err
	}
	for _, file := range offsetCheckpoints {
		offsets := make(map[PartitionID]int64, len(all))
		for id, of := range all {
			if offset := *file.field(&of); offset > file.omitted {
				offsets[id] = offset
			}
		}
		if err := s.writeCheckpoint(file.name, checkpoint.EncodeOffsets(offsets)); err != nil {
			return err
		}
	}
	return nil
}

// offsetCheckpoints are the files that contain one offset per partition, in the order in which they
// are written. The delete horizon is written before the log start and the first dirty offset.
// Otherwise a crash could lose the horizon, and the deleted records or the tombstones of a clean
// section would never be removed.
var offsetCheckpoints = []struct {
	name  string
	field func(*checkpoint.State) *int64
	// omitted and lower values are not written, because a missing line is read as such a value.
	omitted int64
}{
	{checkpoint.RecoveryPointFile, func(s *checkpoint.State) *int64 { return &s.RecoveryPoint },
		checkpoint.UnknownOffset},
	{checkpoint.HorizonFile, func(s *checkpoint.State) *int64 { return &s.Horizon },
		TombstonesUnknown},
	{checkpoint.LogStartFile, func(s *checkpoint.State) *int64 { return &s.LogStart }, 0},
	{checkpoint.HighWatermarkFile, func(s *checkpoint.State) *int64 { return &s.HighWatermark }, 0},
	{checkpoint.FirstDirtyFile, func(s *checkpoint.State) *int64 { return &s.FirstDirty }, 0},
}

// writeCheckpoint writes a file unless the file on disk has the same content. The caller holds
// Store.saving.
func (s *Store) writeCheckpoint(name string, content []byte) error {
	if s.saving.written[name] == string(content) {
		return nil
	}
	if err := vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.opts.Dir, name), content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	s.saving.written[name] = string(content)
	return nil
}

// loadCheckpoints reads the checkpoint files. A missing or malformed file is treated as a file that
// lists no partition. Without a recovery point, recovery scans the whole log; without another
// value, some work is repeated. malformed contains the names of the malformed files, which the next
// save replaces.
func (s *Store) loadCheckpoints() (all map[PartitionID]checkpoint.State, malformed map[string]bool,
	err error) {
	all, malformed = map[PartitionID]checkpoint.State{}, map[string]bool{}
	failed := []error{
		loadCheckpoint(s, all, malformed, checkpoint.AbortedFile, checkpoint.DecodeAborted,
			func(of *checkpoint.State, counts checkpoint.AbortedCounts) { of.Aborted = counts }),
		loadCheckpoint(s, all, malformed, checkpoint.CleaningFile, checkpoint.DecodeCleaning,
			func(of *checkpoint.State, progress checkpoint.CleaningState) {
				of.TombstoneClean, of.Progress = progress.TombstoneClean, progress.Progress
			}),
	}
	for _, file := range offsetCheckpoints {
		failed = append(failed,
			loadCheckpoint(s, all, malformed, file.name, checkpoint.DecodeOffsets,
				func(of *checkpoint.State, offset int64) { *file.field(of) = offset }))
	}
	return all, malformed, errors.Join(failed...)
}

// loadCheckpoint reads one file and stores its values in the map all. If the file is malformed, it
// adds the name of the file to the map malformed instead. It fails if the disk fails, or if another
// program has written the file in a later version.
func loadCheckpoint[V any](s *Store, all map[PartitionID]checkpoint.State,
	malformed map[string]bool,
	name string, decode func([]byte) (map[PartitionID]V, error),
	set func(*checkpoint.State, V)) error {
	content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0 {
		return nil // Apache Kafka creates the file empty
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	s.saving.written[name] = string(content)
	values, err := decode(content)
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err != nil {
		s.opts.Logger.Warn("checkpoint is malformed and will be rebuilt", "file", name, "error",
			err)
		malformed[name] = true
		return nil
	}
	for id, value := range values {
		of, known := all[id]
		if !known {
			of.RecoveryPoint = checkpoint.UnknownOffset
		}
		set(&of, value)
		all[id] = of
	}
	return nil
}
