package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/vfs"
)

// unknownOffset says that a checkpoint does not list a partition.
const unknownOffset = -1

// save writes the checkpoint files whose content has changed. Each is replaced atomically, and they
// may be of different moments: recovery trusts none of them further than the log itself bears it
// out.
//
// The state of each log is read before anything is written, and a log is told of the recovery point
// that was read: a flush that moves it meanwhile is for the next round. The caller holds no lock of
// a log (doc.go).
func (s *Store) save() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	all := make(map[PartitionID]saved, len(s.mu.logs)+len(s.mu.offline))
	for id, o := range s.mu.offline {
		all[id] = o.saved
	}
	s.mu.Unlock()
	logs := s.Logs()
	for _, log := range logs {
		all[log.id] = log.saved()
	}
	if err := s.writeCheckpoints(all); err != nil {
		return err
	}
	for _, log := range logs {
		log.noteCheckpointed(all[log.id].recoveryPoint)
	}
	return s.removeSettled(all)
}

// removeSettled removes the files "retained" of the logs that the checkpoints on disk list. A log
// that is just being taken up is settled before it is among the store's logs, so before any
// checkpoint tells of it: its file stays for the next round. Store.saving is held.
func (s *Store) removeSettled(listed map[PartitionID]saved) error {
	s.mu.Lock()
	var ids []PartitionID
	for id := range s.mu.settled {
		if _, ok := listed[id]; ok {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		name := filepath.Join(s.opts.Dir, id.String(), retainedFile)
		if err := s.opts.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file that the checkpoints replace: %w", err)
		}
		s.forgetSettled(id)
	}
	return nil
}

// forgetSettled says that a file "retained" is not to be removed (any more).
func (s *Store) forgetSettled(id PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.settled, id)
}

// writeCheckpoints writes the files whose content differs from what it wrote last: most seconds of
// most clusters that is none, and each file costs two syncs. When one fails the others of this
// round wait; those before it are on disk, which does no harm.
func (s *Store) writeCheckpoints(all map[PartitionID]saved) error {
	files := map[string]map[PartitionID]int64{
		recoveryPointFile: {}, logStartFile: {}, highWatermarkFile: {}, horizonFile: {},
		firstDirtyFile: {},
	}
	for id, of := range all {
		put := func(file string, offset, unlessAtMost int64) {
			if offset > unlessAtMost {
				files[file][id] = offset
			}
		}
		put(recoveryPointFile, of.recoveryPoint, unknownOffset)
		// Of the others, 0 is what a missing line means, and one less to write when a log is made.
		put(highWatermarkFile, of.highWatermark, 0)
		put(logStartFile, of.logStart, 0)
		put(horizonFile, of.horizon, horizonUnknown)
		put(firstDirtyFile, of.firstDirty, 0)
	}
	// Before the recovery point: what lies below that is not scanned.
	if err := s.writeCheckpoint(abortedFile, encodeAborted(all)); err != nil {
		return err
	}
	if err := s.writeCheckpoint(agreedFile, encodeAgreed(all)); err != nil {
		return err
	}
	// The horizon before the first dirty offset: a clean section with tombstones of which nobody
	// knows would keep them.
	for _, name := range []string{recoveryPointFile, logStartFile, highWatermarkFile, horizonFile,
		firstDirtyFile} {
		if err := s.writeCheckpoint(name, encodeOffsets(files[name])); err != nil {
			return err
		}
	}
	return nil
}

// writeCheckpoint writes a file unless it holds the content already. Store.saving is held.
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

// loadAborted is loadCheckpoints of aborted-transactions-checkpoint.
func (s *Store) loadAborted(all map[PartitionID]saved) error {
	content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, abortedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", abortedFile, err)
	}
	s.saving.written[abortedFile] = string(content)
	counts, err := decodeAborted(content)
	if err != nil {
		s.opts.Logger.Warn("checkpoint unreadable", "file", abortedFile, "error", err)
		return nil
	}
	for id, of := range counts {
		all[id] = saved{recoveryPoint: unknownOffset, aborted: of}
	}
	return nil
}

// loadAgreed is loadCheckpoints of tombstone-agreement-checkpoint.
func (s *Store) loadAgreed(all map[PartitionID]saved) error {
	content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, agreedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", agreedFile, err)
	}
	s.saving.written[agreedFile] = string(content)
	agreements, err := decodeAgreed(content)
	if err != nil {
		s.opts.Logger.Warn("checkpoint unreadable", "file", agreedFile, "error", err)
		return nil
	}
	for id, agreed := range agreements {
		of, known := all[id]
		if !known {
			of.recoveryPoint = unknownOffset
		}
		of.lonelyTo, of.agreed = agreed.lonelyTo, agreed.steps
		all[id] = of
	}
	return nil
}

// loadCheckpoints reads the checkpoint files. A missing or malformed one is as if it listed
// nothing: without a recovery point everything is scanned, without the others a little is repeated.
func (s *Store) loadCheckpoints() (map[PartitionID]saved, error) {
	all := map[PartitionID]saved{}
	load := func(name string, set func(*saved, int64)) error {
		content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		s.saving.written[name] = string(content)
		offsets, err := decodeOffsets(content)
		if err != nil {
			s.opts.Logger.Warn("checkpoint unreadable", "file", name, "error", err)
			return nil
		}
		for id, offset := range offsets {
			of, known := all[id]
			if !known {
				of.recoveryPoint = unknownOffset
			}
			set(&of, offset)
			all[id] = of
		}
		return nil
	}
	return all, errors.Join(
		s.loadAborted(all),
		s.loadAgreed(all),
		load(recoveryPointFile, func(of *saved, offset int64) { of.recoveryPoint = offset }),
		load(logStartFile, func(of *saved, offset int64) { of.logStart = offset }),
		load(highWatermarkFile, func(of *saved, offset int64) { of.highWatermark = offset }),
		load(horizonFile, func(of *saved, ms int64) { of.horizon = ms }),
		load(firstDirtyFile, func(of *saved, offset int64) { of.firstDirty = offset }),
	)
}
