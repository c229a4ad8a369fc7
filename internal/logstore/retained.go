package logstore

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/vfs"
)

// checkpointState is what the checkpoint files contain of one partition.
type checkpointState struct {
	// logStart, highWatermark and firstDirty are 0 if no checkpoint lists the partition
	logStart      int64
	recoveryPoint int64 // unknownOffset: recovery scans everything
	highWatermark int64
	firstDirty    int64
	// horizon is TombstonesUnknown after a Release: a pass then searches for tombstones again
	horizon        int64
	tombstoneClean int64                  // 0 for a retained log: a pass computes it again
	progress       clean.CleaningProgress // nil for a retained log
	// aborted is for the segments below the recovery point; nil for a retained log
	aborted checkpoint.AbortedCounts
}

// retained is the file "retained" in the directory of a partition that Release retained: the
// partition, and its part of the checkpoints, which no longer list it.
type retained struct {
	id       PartitionID
	clean    bool // the log was closed orderly
	released time.Time
	saved    checkpointState
}

// write makes the file durable before the directory is renamed: without it the partition of a
// retained directory is unknown.
func (r retained) write(fsys vfs.FS, dir string) error {
	content := fmt.Sprintf("version: 0\ntopic: %s\npartition: %d\nclean: %t\nreleased_ms: %d\n"+
		"log_start: %d\nrecovery_point: %d\nhigh_watermark: %d\nfirst_dirty: %d\n",
		r.id.Topic, r.id.Index, r.clean, r.released.UnixMilli(),
		r.saved.logStart, r.saved.recoveryPoint, r.saved.highWatermark, r.saved.firstDirty)
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, retainedFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", retainedFile, err)
	}
	return nil
}

// readRetained reads the file; ok is false if there is none.
func readRetained(fsys vfs.FS, dir string) (r retained, ok bool, err error) {
	values, err := readFields(fsys, filepath.Join(dir, retainedFile))
	if values == nil || err != nil {
		return r, false, err
	}
	number := func(key string) int64 {
		n, parseErr := strconv.ParseInt(values[key], 10, 64)
		if (parseErr != nil || n < unknownOffset) && err == nil {
			err = fmt.Errorf("read %s: %w: %s is %q", retainedFile, errMeta, key, values[key])
		}
		return n
	}
	r = retained{
		id:       PartitionID{Topic: values["topic"], Index: int32(number("partition"))},
		clean:    values["clean"] == "true",
		released: time.UnixMilli(number("released_ms")),
		saved: checkpointState{
			logStart:      number("log_start"),
			recoveryPoint: number("recovery_point"),
			highWatermark: number("high_watermark"),
			firstDirty:    number("first_dirty"),
		},
	}
	return r, err == nil, err
}

// merge returns, of two states of one log, the later one, field by field: each field only rises
// during the life of a log. The delete horizon is the exception: it may fall, and is set to
// TombstonesUnknown, so that a pass searches for tombstones again. The other tombstone fields are
// reset too, because they were not updated meanwhile.
func (s checkpointState) merge(other checkpointState) checkpointState {
	return checkpointState{
		logStart:      max(s.logStart, other.logStart),
		recoveryPoint: max(s.recoveryPoint, other.recoveryPoint),
		highWatermark: max(s.highWatermark, other.highWatermark),
		firstDirty:    max(s.firstDirty, other.firstDirty),
		aborted:       s.aborted,
	}
}
