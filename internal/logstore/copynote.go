package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"heartwood.dev/heartwood/internal/vfs"
)

// Files that exist while a log is copied, or completed, from another replica;
// docs/format/store.md describes them.
const (
	// Files that exist while a log is copied, or completed, from another replica;
	// docs/format/store.md describes them.
	//
	// the broker whose log is being copied into an empty one (ADR 0155)
	copySourceFile = "copy.source"
	// the leader epoch in which the log received records behind a gap (ADR 0201)
	copyGapFile = "copy.gap"
)

// CopySource returns the broker of which this log is an incomplete copy, -1 if there is none. It
// reads the file.
func (l *Log) CopySource() (broker int32,
	err error) {
	return l.readCopyNote(copySourceFile, "broker")
}

// SetCopySource durably stores the source broker. The caller calls it before the first record of
// the copy. -1 marks the copy as complete; if a crash reverts that mark, the log is copied once
// more.
func (l *Log) SetCopySource(broker int32) error {
	return l.writeCopyNote(copySourceFile, "broker", broker)
}

// CopyGap returns the leader epoch in which this log last received records behind a gap, -1 if
// there is no such gap, or if the gap is no longer relevant. It reads the file.
func (l *Log) CopyGap() (epoch int32, err error) { return l.readCopyNote(copyGapFile, "epoch") }

// SetCopyGap durably stores the leader epoch. The caller calls it before the first record behind
// the gap. -1 marks that no gap is relevant any more; if a crash reverts that mark, the log may be
// copied needlessly.
func (l *Log) SetCopyGap(epoch int32) error { return l.writeCopyNote(copyGapFile, "epoch", epoch) }

// readCopyNote reads the number in a file, -1 if there is no file.
func (l *Log) readCopyNote(file, key string) (int32, error) {
	values, err := readFields(l.env.fs, filepath.Join(l.dir, file))
	if values == nil || err != nil {
		return -1, err
	}
	n, err := strconv.ParseInt(values[key], 10, 32)
	if err != nil || n < 0 {
		return -1, fmt.Errorf("read %s: %w: %s %q", file, errMeta, key, values[key])
	}
	return int32(n), nil
}

// writeCopyNote writes the file, or removes it if the number is below 0.
func (l *Log) writeCopyNote(file, key string, number int32) error {
	name := filepath.Join(l.dir, file)
	if number < 0 {
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w: %w", file, ErrStorage, err)
		}
		return nil
	}
	if err := vfs.WriteFileAtomic(l.env.fs, name,
		fmt.Appendf(nil, "version: 0\n%s: %d\n", key, number)); err != nil {
		return fmt.Errorf("write %s: %w: %w", file, ErrStorage, err)
	}
	return nil
}
