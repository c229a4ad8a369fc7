package logstore

import (
	"fmt"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/vfs"
)

// assignmentFile names the time as a replica for which the log was made (ADR 0185).
const assignmentFile = "assignment"

// assignmentBytesMax bounds the name; ours have 22 bytes.
const assignmentBytesMax = 64

// ReplicaIncarnation is the time as a replica for which the log was made, "" if nothing is known of it: a
// log from before such times had names. It reads the file.
func (l *Log) ReplicaIncarnation() (string, error) {
	values, err := readFields(l.env.fs, filepath.Join(l.dir, assignmentFile))
	if values == nil || err != nil {
		return "", err
	}
	if err := checkAssignment(values["id"]); err != nil {
		return "", fmt.Errorf("read %s: %w", assignmentFile, err)
	}
	return values["id"], nil
}

// SetReplicaIncarnation notes it, for good before it returns. A log that was made for another assignment
// was given up before, for good as well: so a crash never leaves the records of one time under the
// name of another.
func (l *Log) SetReplicaIncarnation(id string) error {
	if err := checkAssignment(id); err != nil {
		return fmt.Errorf("write %s: %w", assignmentFile, err)
	}
	content := "version: 0\nid: " + id + "\n"
	if err := vfs.WriteFileAtomic(l.env.fs, filepath.Join(l.dir, assignmentFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w: %w", assignmentFile, ErrStorage, err)
	}
	return nil
}

// checkAssignment fails, with errMeta, unless the name fits into a line of the file and comes back
// the same.
func checkAssignment(id string) error {
	if id == "" || len(id) > assignmentBytesMax ||
		strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: id %.100q", errMeta, id)
	}
	return nil
}
