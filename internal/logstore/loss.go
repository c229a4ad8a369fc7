package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// lossFile states that the log has lost records which were on the disk, and why that is known.
const lossFile = "records.lost"

// evidence is what the checkpoint files, and the summary of a clean shutdown, state about a log
// that is being opened.
type evidence struct {
	// missing: the checkpoints list the log, and its directory does not exist.
	missing bool
	// clean: the store was shut down cleanly, so segments and highWatermark are exact.
	clean         bool
	recoveryPoint int64 // checkpoint.UnknownOffset: no checkpoint lists the log
	highWatermark int64
	// segments are the ranges of all segments at the clean shutdown, in any order.
	segments []checkpoint.Range
}

// lossOf compares a log with the evidence. It returns how the log shows that records are lost which
// were synced to the disk, "" if it does not. base are the base offsets of the segments that were
// found, ascending, next the end offsets of these segments, and end is the log end offset.
//
// A crash loses only records above the recovery point on disk, so it is no loss. Neither are
// records that a truncation, retention or DeleteRecords has removed: a truncation lowers the
// checkpoints before it removes a record, and the other two only raise the log start.
func lossOf(of evidence, base, next []int64, end int64) string {
	written := of.recoveryPoint
	if of.missing || of.clean {
		written = max(written, of.highWatermark)
	}
	switch {
	case end < written && of.missing:
		return fmt.Sprintf("the directory is missing; its log ended at %d or later", written)
	case end < written:
		return fmt.Sprintf("the log ends at %d, but was synced up to %d", end, written)
	case !of.clean:
		return ""
	}
	for _, closed := range of.segments {
		switch i, found := slices.BinarySearch(base, closed.Base); {
		case !found:
			return fmt.Sprintf("segment %d is missing", closed.Base)
		case next[i] < closed.Next:
			return fmt.Sprintf("segment %d ends at %d, not at %d", closed.Base, next[i],
				closed.Next)
		}
	}
	return ""
}

// recordLoss stores durably that the recovered log has lost records. It is called before the
// checkpoints are written again, because these describe the log as it is then.
func (r *recovery) recordLoss(from start) error {
	l := r.log
	known := evidence{missing: from.missing, clean: r.clean && !from.offline,
		recoveryPoint: r.saved.RecoveryPoint, highWatermark: r.saved.HighWatermark}
	if from.current {
		known.segments = r.closed.Ranges
		for _, sum := range r.closed.Segments {
			known.segments = append(known.segments, checkpoint.Range{Base: sum.Base,
				Next: sum.Next})
		}
	}
	base, next := make([]int64, len(r.handles)), make([]int64, len(r.handles))
	for i, h := range r.handles {
		base[i], next[i] = h.Base(), h.NextOffset()
	}
	if cause := lossOf(known, base, next, r.end()); cause != "" {
		l.env.logger.Error("log has lost records that were on the disk", "partition", l.id,
			"cause", cause, "logStart", l.LogStart(), "logEnd", l.LogEnd(),
			"recoveryPoint", r.saved.RecoveryPoint, "highWatermark", r.saved.HighWatermark)
		return l.SetLoss(cause)
	}
	stored, err := readLoss(l.env.fs, l.dir)
	l.loss.Store(stored)
	return err
}

// loss is the content of records.lost.
type loss struct {
	cause string
	// incarnation is the replica incarnation id that the metadata contained when the broker first
	// knew of the loss. It is set later than cause, which stamped reports.
	incarnation string
	stamped     bool
}

// Loss returns how the log is known to have lost records that were on the disk, "" if it is not.
// The loss remains, also after a restart, until SetLoss removes it.
func (l *Log) Loss() string {
	if known := l.loss.Load(); known != nil {
		return known.cause
	}
	return ""
}

// LossOf returns the replica incarnation id that StampLoss has stored; ok is false if there is no
// loss, or no id was stored since the loss was found.
func (l *Log) LossOf() (incarnation string, ok bool) {
	if known := l.loss.Load(); known != nil {
		return known.incarnation, known.stamped
	}
	return "", false
}

// SetLoss durably stores how the log is known to have lost records. The value "" removes the loss:
// the log was emptied, or a user continues with the records that are left.
func (l *Log) SetLoss(cause string) error {
	if cause != "" {
		return l.writeLoss(loss{cause: cause})
	}
	err := l.env.fs.Remove(filepath.Join(l.dir, lossFile))
	if err == nil {
		err = l.env.fs.SyncDir(l.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w: %w", lossFile, ErrStorage, err)
	}
	l.loss.Store(nil)
	return nil
}

// StampLoss durably stores the replica incarnation id with which the metadata does not take the
// loss into account yet; the id may be "". The caller then reports the loss.
func (l *Log) StampLoss(incarnation string) error {
	return l.writeLoss(loss{cause: l.Loss(), incarnation: incarnation, stamped: true})
}

func (l *Log) writeLoss(of loss) error {
	content := "version: 0\ncause: " + of.cause + "\n"
	if of.stamped {
		content += "replica: " + of.incarnation + "\n"
	}
	if err := vfs.WriteFileAtomic(l.env.fs, filepath.Join(l.dir, lossFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w: %w", lossFile, ErrStorage, err)
	}
	l.loss.Store(&of)
	return nil
}

// readLoss reads the stored loss, nil if there is none.
func readLoss(fsys vfs.FS, dir string) (*loss, error) {
	values, err := readFields(fsys, filepath.Join(dir, lossFile))
	if values == nil || err != nil {
		return nil, err
	}
	found := &loss{cause: values["cause"]}
	if found.incarnation, found.stamped = values["replica"]; found.cause == "" {
		return nil, fmt.Errorf("read %s: %w: no cause", lossFile, errMeta)
	}
	return found, nil
}

// noteMissing stores the state of the logs that the checkpoints list and whose directory does not
// exist, so that later checkpoints still list them. A directory whose release was interrupted is
// not missing: it was renamed, and the checkpoints were not written yet.
func (s *Store) noteMissing(listed map[PartitionID]checkpoint.State, present []PartitionID) {
	there := make(map[PartitionID]bool, len(present))
	for _, id := range present {
		there[id] = true
	}
	for id, saved := range listed {
		if !there[id] && !slices.ContainsFunc(s.mu.released, releaseOf(id)) {
			s.mu.missing[id] = saved
		}
	}
}

// releaseOf returns a function that reports whether a name is that of the released directory of a
// partition.
func releaseOf(id PartitionID) func(name string) bool {
	pattern := releasedName(id, TopicID{}, deleteSuffix)
	prefix := pattern[:strings.LastIndexByte(pattern, '.')+1]
	return func(name string) bool {
		return len(name) == len(pattern) && strings.HasPrefix(name, prefix)
	}
}

// ForgetMissing removes the partitions from the checkpoints whose directory was missing when the
// store was opened, except those that the function keep selects. The caller calls it when it knows
// which partitions are assigned to this broker: the others belong to topics that were deleted.
func (s *Store) ForgetMissing(keep func(PartitionID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mu.missing {
		if !keep(id) {
			delete(s.mu.missing, id)
		}
	}
}
