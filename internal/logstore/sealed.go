package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// loadSummaries reads segment-checkpoint after a clean shutdown. It returns nil if the file is
// missing or malformed; the start is then slower but correct. current reports whether the process
// with this broker epoch, which wrote the clean-shutdown marker, wrote the file too. Otherwise
// another program has used the directory since, as Kafka may, and segments may have been deleted.
func (s *Store) loadSummaries(epoch int64) (all map[PartitionID]checkpoint.ClosedLog,
	current bool) {
	content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, checkpoint.SegmentsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	writer := checkpoint.UnknownWriter
	if err == nil {
		all, writer, err = checkpoint.DecodeClosedLogs(content)
	}
	if err != nil {
		s.opts.Logger.Warn("segment checkpoint is malformed and will be rebuilt", "file",
			checkpoint.SegmentsFile, "error", err)
	}
	return all, writer == epoch
}

// saveSummaries writes segment-checkpoint after all logs are closed. The clean-shutdown marker is
// written only after this file.
func (s *Store) saveSummaries(all map[PartitionID]checkpoint.ClosedLog) error {
	if err := vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.opts.Dir, checkpoint.SegmentsFile),
		checkpoint.EncodeClosedLogs(all, s.epoch.Load())); err != nil {
		return fmt.Errorf("write %s: %w", checkpoint.SegmentsFile, err)
	}
	return nil
}

// summarize describes the sealed segments and the leader epochs of a log. If a segment has no
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
