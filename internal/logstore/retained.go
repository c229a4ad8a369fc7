package logstore

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// retained is the content of the file "retained" in the directory of a retained log: the partition,
// and its values in the checkpoint files, which no longer list the partition.
type retained struct {
	id       checkpoint.PartitionID
	clean    bool // the log was closed without an error
	released time.Time
	saved    checkpoint.State
}

// write durably writes the file. It is called before the directory is renamed, because only the
// file identifies the partition of a renamed directory.
func (r retained) write(fsys vfs.FS, dir string) error {
	content := fmt.Sprintf("version: 0\ntopic: %s\npartition: %d\nclean: %t\nreleased_ms: %d\n"+
		"log_start: %d\nrecovery_point: %d\nhigh_watermark: %d\nfirst_dirty: %d\n",
		r.id.Topic, r.id.Index, r.clean, r.released.UnixMilli(),
		r.saved.LogStart, r.saved.RecoveryPoint, r.saved.HighWatermark, r.saved.FirstDirty)
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
		if (parseErr != nil || n < checkpoint.UnknownOffset) && err == nil {
			err = fmt.Errorf("read %s: %w: %s is %q", retainedFile, errMeta, key, values[key])
		}
		return n
	}
	r = retained{
		id:       checkpoint.PartitionID{Topic: values["topic"], Index: int32(number("partition"))},
		clean:    values["clean"] == "true",
		released: time.UnixMilli(number("released_ms")),
		saved: checkpoint.State{
			LogStart:      number("log_start"),
			RecoveryPoint: number("recovery_point"),
			HighWatermark: number("high_watermark"),
			FirstDirty:    number("first_dirty"),
		},
	}
	return r, err == nil, err
}
