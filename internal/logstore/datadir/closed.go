package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// LoadClosed reads segment-checkpoint after a clean shutdown. It returns nil if the file is missing
// or malformed; the start is then slower but correct. current reports whether the process with the
// given broker epoch, which wrote the clean-shutdown marker, also wrote this file. Otherwise
// another program, such as Kafka, has used the directory since then, and may have deleted segments.
func LoadClosed(fsys vfs.FS, dir string, logger *slog.Logger,
	epoch int64) (all map[checkpoint.PartitionID]checkpoint.ClosedLog, current bool) {
	content, err := fsys.ReadFile(filepath.Join(dir, checkpoint.SegmentsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	var writer int64
	if err == nil {
		all, writer, err = checkpoint.DecodeClosedLogs(content)
	}
	if err != nil {
		logger.Warn("segment checkpoint is malformed and will be rebuilt", "file",
			checkpoint.SegmentsFile, "error", err)
		return nil, false
	}
	return all, writer == epoch
}

// RemoveClosed durably removes segment-checkpoint while a store is open. Only a start after a clean
// shutdown reads the file, and that shutdown writes it again.
func RemoveClosed(fsys vfs.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, checkpoint.SegmentsFile))
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", checkpoint.SegmentsFile, err)
	}
	return nil
}

// SaveClosed writes segment-checkpoint after all logs are closed. The clean-shutdown marker is
// written only after this file.
func SaveClosed(fsys vfs.FS, dir string, all map[checkpoint.PartitionID]checkpoint.ClosedLog,
	epoch int64) error {
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, checkpoint.SegmentsFile),
		checkpoint.EncodeClosedLogs(all, epoch)); err != nil {
		return fmt.Errorf("write %s: %w", checkpoint.SegmentsFile, err)
	}
	return nil
}
