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

// checkpointState is the content of the checkpoint files for one partition.
type checkpointState struct {
	// logStart, highWatermark and firstDirty are 0 if no checkpoint lists the partition.
	logStart      int64
	recoveryPoint int64 // unknownOffset: recovery scans every segment
	highWatermark int64
	firstDirty    int64
	// horizon is TombstonesUnknown after a Release, so that the next pass searches for tombstones.
	horizon        int64
	tombstoneClean int64                  // 0 for a retained log; the next pass computes it
	progress       clean.CleaningProgress // nil for a retained log
	// aborted covers the segments below the recovery point; nil for a retained log.
	aborted checkpoint.AbortedCounts
}

// retained is the content of the file "retained" in the directory of a retained log: the partition,
// and its values in the checkpoint files, which no longer list the partition.
type retained struct {
	id       PartitionID
	clean    bool // the log was closed without an error
	released time.Time
	saved    checkpointState
}

// write durably writes the file. It is called before the directory is renamed, because only the
// file identifies the partition of a renamed directory.
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

// readRetained reads the file "retained"; ok is false if the file does not exist.
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

// merge combines two checkpoint states of one log. Each field only rises during the life of
// a log, so merge returns the larger value of each field. The delete horizon is an exception,
// because it may fall: it becomes TombstonesUnknown, so that the next pass searches for tombstones.
// The other fields about tombstones are reset too, because they were not updated meanwhile.
func (s checkpointState) merge(other checkpointState) checkpointState {
	return checkpointState{
		logStart:      max(s.logStart, other.logStart),
		recoveryPoint: max(s.recoveryPoint, other.recoveryPoint),
		highWatermark: max(s.highWatermark, other.highWatermark),
		firstDirty:    max(s.firstDirty, other.firstDirty),
		aborted:       s.aborted,
	}
}
