package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"heartwood.dev/heartwood/internal/vfs"
)

// copySourceFile names the broker whose log is being copied into an empty one; there is none once the copy is whole (ADR 0155).
const copySourceFile = "copy.source"

// CopySource is the broker of which this log is a copy that is not whole yet, -1 if it is none. It reads the file.
func (l *Log) CopySource() (broker int32, err error) {
	values, err := readFields(l.env.fs, filepath.Join(l.dir, copySourceFile))
	if values == nil || err != nil {
		return -1, err
	}
	id, err := strconv.ParseInt(values["broker"], 10, 32)
	if err != nil || id < 0 {
		return -1, fmt.Errorf("read %s: %w: broker %q", copySourceFile, errMeta, values["broker"])
	}
	return int32(id), nil
}

// SetCopySource notes it, for good before it returns: it comes before the first record of the copy. With -1 the copy is whole; should a
// crash bring the note back, a copy is made once more.
func (l *Log) SetCopySource(broker int32) error {
	name := filepath.Join(l.dir, copySourceFile)
	if broker < 0 {
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w: %w", copySourceFile, ErrStorage, err)
		}
		return nil
	}
	if err := vfs.WriteFileAtomic(l.env.fs, name, fmt.Appendf(nil, "version: 0\nbroker: %d\n", broker)); err != nil {
		return fmt.Errorf("write %s: %w: %w", copySourceFile, ErrStorage, err)
	}
	return nil
}
