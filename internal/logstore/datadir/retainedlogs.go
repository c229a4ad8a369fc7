package datadir

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// RetainedLog is the log of a partition that was released but whose data was kept.
type RetainedLog struct {
	ID        checkpoint.PartitionID
	Topic     TopicID // zero if the topic id cannot be read
	Released  time.Time
	SizeBytes int64 // total size of all files in the directory
	// LogStart and HighWatermark are the values at the time of the release. A compacted log has
	// fewer records than offsets between them.
	LogStart, HighWatermark int64

	Directory string // name of the log's directory in the data directory
}

// MeasureRetained returns the retained logs in a data directory, sorted by partition and time of
// release. It omits a directory that cannot be read, or is reopened or removed meanwhile.
func MeasureRetained(fsys vfs.FS, dir string, logger *slog.Logger) ([]RetainedLog, error) {
	all, err := ListRetained(fsys, dir, logger)
	if err != nil {
		return nil, err
	}
	measured := make([]RetainedLog, 0, len(all))
	for _, r := range all {
		if r.measure(fsys, dir) == nil {
			measured = append(measured, r)
		}
	}
	return measured, nil
}

// measure reads the topic id and the size of a retained log.
func (r *RetainedLog) measure(fsys vfs.FS, dataDir string) error {
	dir := filepath.Join(dataDir, r.Directory)
	r.Topic = TopicOf(fsys, dir)
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", r.Directory, err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return fmt.Errorf("read the size of a file in %s: %w", r.Directory, err)
		}
		r.SizeBytes += info.Size()
	}
	return nil
}

// ListRetained returns the retained logs in a data directory without topic ids and sizes, sorted by
// partition and time of release. It omits a directory that cannot be read, and logs a warning.
func ListRetained(fsys vfs.FS, dir string, logger *slog.Logger) ([]RetainedLog, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list data directory: %w", err)
	}
	var all []RetainedLog
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasSuffix(entry.Name(), RetainedSuffix) {
			continue
		}
		state, ok, err := ReadRetained(fsys, filepath.Join(dir, entry.Name()))
		if err != nil {
			logger.Warn("failed to read the kept log of a deleted topic", "directory",
				entry.Name(), "error", err)
		}
		if err != nil || !ok {
			continue
		}
		all = append(all, RetainedLog{ID: state.ID, Released: state.Released,
			LogStart: state.Saved.LogStart, HighWatermark: state.Saved.HighWatermark,
			Directory: entry.Name()})
	}
	slices.SortStableFunc(all, func(a, b RetainedLog) int {
		if by := a.ID.Compare(b.ID); by != 0 {
			return by
		}
		return a.Released.Compare(b.Released)
	})
	return all, nil
}

// TopicOf returns the topic id in a directory, or the zero id if the file cannot be read.
func TopicOf(fsys vfs.FS, dir string) TopicID {
	topic, err := ReadTopicID(fsys, dir)
	if err != nil {
		return TopicID{}
	}
	return topic
}
