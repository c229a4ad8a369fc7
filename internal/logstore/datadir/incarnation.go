package datadir

import (
	"fmt"
	"path/filepath"
	"strings"
)

// AssignmentFile contains the id of the replica incarnation for which the log was created (ADR
// 0185).
const AssignmentFile = "assignment"

// assignmentBytesMax is the maximum length of the id; generated ids have 22 bytes.
const assignmentBytesMax = 64

// ReplicaIncarnation returns the id of the replica incarnation for which the log was created. It
// returns "" if the log is new and no incarnation has been decided for it. Each call reads the id
// from a file.
func (n *Notes) ReplicaIncarnation() (string, error) {
	values, err := readFields(n.fs, filepath.Join(n.dir, AssignmentFile))
	if values == nil || err != nil {
		return "", err
	}
	if err := checkAssignment(values["id"]); err != nil {
		return "", fmt.Errorf("read %s: %w", AssignmentFile, err)
	}
	return values["id"], nil
}

// SetReplicaIncarnation durably stores the id of the replica incarnation. If the log was created
// for another incarnation, the caller must durably empty the log before. So a crash never leaves
// the records of one incarnation with the id of another incarnation.
func (n *Notes) SetReplicaIncarnation(id string) error {
	if err := checkAssignment(id); err != nil {
		return fmt.Errorf("write %s: %w", AssignmentFile, err)
	}
	return n.write(AssignmentFile, []byte("version: 0\nid: "+id+"\n"))
}

// checkAssignment fails with ErrMalformed if the id is empty, too long, or contains anything but
// printable ASCII characters other than spaces. The file could not store such an id unchanged.
func checkAssignment(id string) error {
	if id == "" || len(id) > assignmentBytesMax ||
		strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: id %.100q", ErrMalformed, id)
	}
	return nil
}
