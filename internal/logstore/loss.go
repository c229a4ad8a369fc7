package logstore

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/recovery"
)

// evidence is the information about a log that is being opened, from the checkpoint files and from
// the summary of a clean shutdown.
type evidence struct {
	// missing is true if the checkpoints list the log, but its directory does not exist.
	missing bool
	// clean is true if the store was shut down cleanly, so segments and highWatermark are exact.
	clean         bool
	recoveryPoint int64 // checkpoint.UnknownOffset if no checkpoint lists the log
	highWatermark int64
	// segments contains the offset ranges of all segments at the clean shutdown, in any order.
	segments []checkpoint.Range
}

// lossOf compares a recovered log with the evidence. If records that were synced to the disk are
// lost, it returns a description of how the log shows this; otherwise "". base and next are the
// base and end offsets of the segments that were found, in ascending order; end is the log end
// offset.
//
// A crash loses only records above the recovery point on disk, so their absence is not a loss.
// Records that a truncation, retention or DeleteRecords has removed are not a loss either: a
// truncation lowers the checkpoints before it removes a record, and the other two only raise the
// log start.
func lossOf(known evidence, base, next []int64, end int64) string {
	written := known.recoveryPoint
	if known.missing || known.clean {
		written = max(written, known.highWatermark)
	}
	switch {
	case end < written && known.missing:
		return fmt.Sprintf("the directory is missing; its log ended at %d or later", written)
	case end < written:
		return fmt.Sprintf("the log ends at %d, but was synced up to %d", end, written)
	case !known.clean:
		return ""
	}
	for _, closed := range known.segments {
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

// recordLoss durably stores that the recovered log has lost records. It is called before the
// checkpoints are written again, because new checkpoints describe the log without the lost records.
func recordLoss(notes *datadir.Notes, from start, in recovery.Input, found recovery.Found) error {
	known := evidence{missing: from.missing, clean: in.Clean && !from.offline,
		recoveryPoint: in.Saved.RecoveryPoint, highWatermark: in.Saved.HighWatermark}
	if from.current {
		known.segments = in.Closed.Ranges
		for _, sum := range in.Closed.Segments {
			known.segments = append(known.segments, checkpoint.Range{Base: sum.Base,
				Next: sum.Next})
		}
	}
	base, next := make([]int64, len(found.Handles)), make([]int64, len(found.Handles))
	for i, h := range found.Handles {
		base[i], next[i] = h.Base(), h.NextOffset()
	}
	if cause := lossOf(known, base, next, found.End); cause != "" {
		in.Logger.Error("log has lost records that were on the disk", "partition", in.ID,
			"cause", cause, "logStart", found.LogStart, "logEnd", found.End,
			"recoveryPoint", in.Saved.RecoveryPoint, "highWatermark", in.Saved.HighWatermark)
		return notes.SetLoss(cause)
	}
	return notes.LoadLoss()
}

// noteMissing stores the checkpointed state of each log that the checkpoints list but that has no
// directory, so that later checkpoints still list it. A log whose release was interrupted is not
// missing: its directory was renamed before the checkpoints were written.
func (s *Store) noteMissing(listed map[PartitionID]checkpoint.State, present []PartitionID) {
	there := make(map[PartitionID]bool, len(present))
	for _, id := range present {
		there[id] = true
	}
	for id, saved := range listed {
		if !there[id] && !slices.ContainsFunc(s.mu.released, datadir.ReleaseOf(id)) {
			s.mu.missing[id] = saved
		}
	}
}

// ForgetMissing removes partitions whose directory was missing when the store was opened from the
// checkpoints, except those that the function keep selects. The caller calls it once it knows which
// partitions are assigned to this broker, because the other partitions belong to topics that were
// deleted.
func (s *Store) ForgetMissing(keep func(PartitionID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mu.missing {
		if !keep(id) {
			delete(s.mu.missing, id)
		}
	}
}
