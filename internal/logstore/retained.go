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

// checkpointState is what the checkpoint files know of a partition.
type checkpointState struct {
	// 0 if no checkpoint lists the partition, and so highWatermark and firstDirty
	logStart       int64
	recoveryPoint  int64 // unknownOffset: everything has to be scanned
	highWatermark  int64
	firstDirty     int64
	horizon        int64                  // TombstonesUnknown after a Release: then a pass looks again
	tombstoneClean int64                  // of a log that was put aside 0: a pass looks again
	progress         clean.CleaningProgress // of a log that was put aside nothing
	// of the segments below the recovery point; nothing of a log that was put aside
	aborted checkpoint.AbortedCounts
}

// retained is the file "retained" of a directory that was put aside by Release: whose it was, and
// its part of the checkpoints, which do not list it any more.
type retained struct {
	id       PartitionID
	clean    bool // the log was closed in order
	released time.Time
	saved    checkpointState
}

// write makes the file durable before the directory is renamed: a retained directory without it
// belongs to nobody.
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

// merge takes, of two states of one log, the later one, field by field: each only ever rises while
// a log lives. The horizon is the exception: it may fall, and is left at TombstonesUnknown, after
// which a pass looks again. So is all that is known of tombstones: nobody has kept it up to date
// meanwhile.
func (s checkpointState) merge(other checkpointState) checkpointState {
	return checkpointState{
		logStart:      max(s.logStart, other.logStart),
		recoveryPoint: max(s.recoveryPoint, other.recoveryPoint),
		highWatermark: max(s.highWatermark, other.highWatermark),
		firstDirty:    max(s.firstDirty, other.firstDirty),
		aborted:       s.aborted,
	}
}
