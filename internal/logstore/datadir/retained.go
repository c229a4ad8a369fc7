package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// Retained is the content of the file "retained" in a retained log's directory: the partition, and
// the partition's values from the checkpoint files, which no longer list the partition.
type Retained struct {
	ID       checkpoint.PartitionID
	Clean    bool // true if the log was closed without an error
	Released time.Time
	Saved    checkpoint.State
}

// Write durably writes the file "retained". It is called before the directory is renamed, because
// afterwards only the file identifies the partition.
func (r Retained) Write(fsys vfs.FS, dir string) error {
	content := fmt.Sprintf("version: 0\ntopic: %s\npartition: %d\nclean: %t\nreleased_ms: %d\n"+
		"log_start: %d\nrecovery_point: %d\nhigh_watermark: %d\nfirst_dirty: %d\n",
		r.ID.Topic, r.ID.Index, r.Clean, r.Released.UnixMilli(),
		r.Saved.LogStart, r.Saved.RecoveryPoint, r.Saved.HighWatermark, r.Saved.FirstDirty)
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, RetainedFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", RetainedFile, err)
	}
	return nil
}

// ReadRetained reads the file "retained"; ok is false if the file does not exist.
func ReadRetained(fsys vfs.FS, dir string) (r Retained, ok bool, err error) {
	values, err := readFields(fsys, filepath.Join(dir, RetainedFile))
	if values == nil || err != nil {
		return r, false, err
	}
	number := func(key string) int64 {
		n, parseErr := strconv.ParseInt(values[key], 10, 64)
		if (parseErr != nil || n < checkpoint.UnknownOffset) && err == nil {
			err = fmt.Errorf("read %s: %w: %s is %q", RetainedFile, ErrMalformed, key, values[key])
		}
		return n
	}
	r = Retained{
		ID:       checkpoint.PartitionID{Topic: values["topic"], Index: int32(number("partition"))},
		Clean:    values["clean"] == "true",
		Released: time.UnixMilli(number("released_ms")),
		Saved: checkpoint.State{
			LogStart:      number("log_start"),
			RecoveryPoint: number("recovery_point"),
			HighWatermark: number("high_watermark"),
			FirstDirty:    number("first_dirty"),
		},
	}
	return r, err == nil, err
}
