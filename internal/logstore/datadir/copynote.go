package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Files that exist while records are copied from another replica into this log; see
// docs/internals/format/store.md.
const (
	// CopySourceFile contains the id of the broker whose log is being copied into this log, which
	// was empty when the copy began (ADR 0155).
	CopySourceFile = "copy.source"
	// CopyGapFile contains the leader epoch in which the log received records above an offset gap
	// (ADR 0201).
	CopyGapFile = "copy.gap"
)

// CopySource returns the id of the broker whose log is being copied into this log, or -1 if this
// log is not an incomplete copy. Each call reads the id from a file.
func (n *Notes) CopySource() (broker int32, err error) {
	return n.readNumber(CopySourceFile, "broker")
}

// SetCopySource durably stores the id of the broker whose log is copied. The caller calls it before
// it appends the first record of the copy. The value -1 marks the copy as complete by removing the
// file. If a crash restores the file, the log is copied once more.
func (n *Notes) SetCopySource(broker int32) error {
	return n.writeNumber(CopySourceFile, "broker", broker)
}

// CopyGap returns the leader epoch in which this log last received records above an offset gap. It
// returns -1 if there is no such gap, or if the gap is no longer relevant. Each call reads the
// epoch from a file.
func (n *Notes) CopyGap() (epoch int32, err error) { return n.readNumber(CopyGapFile, "epoch") }

// SetCopyGap durably stores the leader epoch in which the log receives records above an offset gap.
// The caller calls it before it appends the first of these records. The value -1 removes the file
// when the gap is no longer relevant. If a crash restores the file, the log may be copied
// needlessly.
func (n *Notes) SetCopyGap(epoch int32) error { return n.writeNumber(CopyGapFile, "epoch", epoch) }

// readNumber reads the number in a file, or returns -1 if the file does not exist.
func (n *Notes) readNumber(file, key string) (int32, error) {
	values, err := readFields(n.fs, filepath.Join(n.dir, file))
	if values == nil || err != nil {
		return -1, err
	}
	number, err := strconv.ParseInt(values[key], 10, 32)
	if err != nil || number < 0 {
		return -1, fmt.Errorf("read %s: %w: %s %q", file, ErrMalformed, key, values[key])
	}
	return int32(number), nil
}

// writeNumber writes the number to a file, or removes the file if the number is negative.
func (n *Notes) writeNumber(file, key string, number int32) error {
	if number < 0 {
		return n.remove(file)
	}
	return n.write(file, fmt.Appendf(nil, "version: 0\n%s: %d\n", key, number))
}
