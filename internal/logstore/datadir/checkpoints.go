package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// Checkpoints are the checkpoint files of a data directory. Only one goroutine may use them at a
// time.
type Checkpoints struct {
	fs      vfs.FS
	dir     string
	logger  *slog.Logger
	written map[string]string // content on disk, by name of the checkpoint file
}

// NewCheckpoints returns the checkpoint files of a data directory. It accesses no file.
func NewCheckpoints(fsys vfs.FS, dir string, logger *slog.Logger) *Checkpoints {
	return &Checkpoints{fs: fsys, dir: dir, logger: logger, written: map[string]string{}}
}

// horizonUnknown is the delete horizon of a log that the checkpoint does not list.
const horizonUnknown = 0

// Write writes each file whose content differs from the last written content. Most rounds of most
// clusters change no file, and each written file costs two syncs. If writing a file fails, the
// later files of this round are not written. The earlier files stay on disk, which is safe.
func (c *Checkpoints) Write(all map[checkpoint.PartitionID]checkpoint.State) error {
	aborted := make(map[checkpoint.PartitionID]checkpoint.AbortedCounts, len(all))
	progress := make(map[checkpoint.PartitionID]checkpoint.CleaningState, len(all))
	for id, state := range all {
		aborted[id] = state.Aborted
		progress[id] = checkpoint.CleaningState{TombstoneClean: state.TombstoneClean,
			Progress: state.Progress}
	}
	// The aborted counts are written before the recovery point. Recovery does not scan below the
	// recovery point, so only these counts show that a transaction index below it was lost.
	if err := c.writeFile(checkpoint.AbortedFile,
		checkpoint.EncodeAborted(aborted)); err != nil {
		return err
	}
	if err := c.writeFile(checkpoint.CleaningFile,
		checkpoint.EncodeCleaning(progress)); err != nil {
		return err
	}
	for _, file := range offsetCheckpoints {
		offsets := make(map[checkpoint.PartitionID]int64, len(all))
		for id, state := range all {
			if offset := *file.field(&state); offset > file.omitted {
				offsets[id] = offset
			}
		}
		if err := c.writeFile(file.name, checkpoint.EncodeOffsets(offsets)); err != nil {
			return err
		}
	}
	return nil
}

// offsetCheckpoint is a file that contains one offset per partition.
type offsetCheckpoint struct {
	name  string
	field func(*checkpoint.State) *int64
	// Values at or below omitted are not written, because a missing line is read as omitted.
	omitted int64
}

// offsetCheckpoints are the files that contain one offset per partition, in the order in which they
// are written. The delete horizon is written before the log start and the first dirty offset.
// Otherwise a crash could lose the horizon, and the deleted records or the tombstones of a clean
// section would never be removed.
var offsetCheckpoints = []offsetCheckpoint{
	{checkpoint.RecoveryPointFile, func(s *checkpoint.State) *int64 { return &s.RecoveryPoint },
		checkpoint.UnknownOffset},
	{checkpoint.HorizonFile, func(s *checkpoint.State) *int64 { return &s.Horizon },
		horizonUnknown},
	{checkpoint.LogStartFile, func(s *checkpoint.State) *int64 { return &s.LogStart }, 0},
	{checkpoint.HighWatermarkFile, func(s *checkpoint.State) *int64 { return &s.HighWatermark }, 0},
	{checkpoint.FirstDirtyFile, func(s *checkpoint.State) *int64 { return &s.FirstDirty }, 0},
}

// writeFile writes a file unless the file on disk has the same content.
func (c *Checkpoints) writeFile(name string, content []byte) error {
	if c.written[name] == string(content) {
		return nil
	}
	delete(c.written, name) // after a failure, the file has the old or the new content
	if err := vfs.WriteFileAtomic(c.fs, filepath.Join(c.dir, name), content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	c.written[name] = string(content)
	return nil
}

// Known returns the content that this process has written to a checkpoint file or read from it; ok
// is false if there is none.
func (c *Checkpoints) Known(name string) (content []byte, ok bool) {
	text, ok := c.written[name]
	return []byte(text), ok
}

// Forget makes the next Write write a file even if its content is the same, because the file is
// damaged. It reports whether the name is the name of a checkpoint file.
func (c *Checkpoints) Forget(name string) bool {
	delete(c.written, name)
	return name == checkpoint.AbortedFile || name == checkpoint.CleaningFile ||
		slices.ContainsFunc(offsetCheckpoints,
			func(file offsetCheckpoint) bool { return file.name == name })
}

// Load reads the checkpoint files. It treats a missing or malformed file as a file that lists no
// partition. Without a recovery point, recovery scans the whole log; without another value, some
// work is repeated. malformed contains the names of the malformed files, which the next Write
// replaces.
func (c *Checkpoints) Load() (all map[checkpoint.PartitionID]checkpoint.State,
	malformed map[string]bool,
	err error) {
	all, malformed = map[checkpoint.PartitionID]checkpoint.State{}, map[string]bool{}
	failed := []error{
		loadCheckpoint(c, all, malformed, checkpoint.AbortedFile, checkpoint.DecodeAborted,
			func(state *checkpoint.State, counts checkpoint.AbortedCounts) { state.Aborted = counts }),
		loadCheckpoint(c, all, malformed, checkpoint.CleaningFile, checkpoint.DecodeCleaning,
			func(state *checkpoint.State, progress checkpoint.CleaningState) {
				state.TombstoneClean, state.Progress = progress.TombstoneClean, progress.Progress
			}),
	}
	for _, file := range offsetCheckpoints {
		failed = append(failed,
			loadCheckpoint(c, all, malformed, file.name, checkpoint.DecodeOffsets,
				func(state *checkpoint.State, offset int64) { *file.field(state) = offset }))
	}
	return all, malformed, errors.Join(failed...)
}

// loadCheckpoint reads one file and stores its values in the map all. If the file is malformed, it
// adds the file's name to the map malformed instead. It fails if the disk fails, or if another
// program has written the file in a later version.
func loadCheckpoint[V any](c *Checkpoints, all map[checkpoint.PartitionID]checkpoint.State,
	malformed map[string]bool,
	name string, decode func([]byte) (map[checkpoint.PartitionID]V, error),
	set func(*checkpoint.State, V)) error {
	content, err := c.fs.ReadFile(filepath.Join(c.dir, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0 {
		return nil // an empty file; Apache Kafka creates such files
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	c.written[name] = string(content)
	values, err := decode(content)
	if errors.Is(err, checkpoint.ErrVersion) && usedByHeartwood(c.fs, c.dir) {
		if values, err = checkpoint.RestoreVersion(content, decode); err == nil {
			c.logger.Warn("checkpoint has a damaged version; its values are used", "file", name)
		}
	}
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err != nil {
		c.logger.Warn("checkpoint is malformed and will be rebuilt", "file", name, "error",
			err)
		malformed[name] = true
		return nil
	}
	for id, value := range values {
		state, known := all[id]
		if !known {
			state.RecoveryPoint = checkpoint.UnknownOffset
		}
		set(&state, value)
		all[id] = state
	}
	return nil
}
