package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// save writes the checkpoint files whose content has changed. Each file is replaced atomically. The
// files may describe different moments, because recovery only relies on values that the log itself
// confirms.
//
// save reads the state of every log before it writes any file. After the writes it passes the
// written recovery point to each log. If a flush advances a recovery point meanwhile, the next save
// writes the new value. The caller holds no lock of a log (doc.go).
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
	if err := s.saving.files.Write(all); err != nil {
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
// The removal is synced. Otherwise a crash during a later truncation could restore the file, which
// contains a higher recovery point. Recovery would then not detect segments that the truncation
// removed.
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
		name := filepath.Join(s.opts.Dir, id.String(), datadir.RetainedFile)
		if err := s.opts.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the file %q of a reopened log: %w", datadir.RetainedFile, err)
		}
		if err := s.opts.FS.SyncDir(filepath.Dir(name)); err != nil {
			return fmt.Errorf("sync the directory of a reopened log: %w", err)
		}
		s.forgetReopened(id)
	}
	return nil
}

// forgetReopened removes a partition from mu.reopened. As a result, save does not remove the
// partition's file "retained".
func (s *Store) forgetReopened(id PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.reopened, id)
}

// summarize returns a summary of a log's sealed segments and leader epochs. If a segment has no
// summary, the next start opens it by reading its files.
func summarize(handles []*segmentlist.Handle, epochs leaderepoch.Cache) checkpoint.ClosedLog {
	closed := checkpoint.ClosedLog{Epochs: checkpoint.SummarizeEpochs(epochs)}
	for _, h := range handles {
		if sum, ok, err := h.Summary(); ok && err == nil {
			closed.Segments = append(closed.Segments, sum)
		} else {
			closed.Ranges = append(closed.Ranges, checkpoint.Range{Base: h.Base(),
				Next: h.NextOffset()})
		}
	}
	return closed
}
