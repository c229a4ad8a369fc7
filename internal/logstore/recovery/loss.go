package recovery

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
)

// Evidence is the information about a log that is being opened, from the checkpoint files and from
// the summary of a clean shutdown.
type Evidence struct {
	// Missing is true if the checkpoints list the log, but its directory does not exist.
	Missing bool
	// Clean is true if the store was shut down cleanly, so Segments and HighWatermark are exact.
	Clean         bool
	RecoveryPoint int64 // checkpoint.UnknownOffset if no checkpoint lists the log
	HighWatermark int64
	// Segments contains the offset ranges of all segments at the clean shutdown, in any order.
	Segments []checkpoint.Range
}

// LossOf compares a recovered log with the evidence. If records that were synced to the disk are
// lost, it returns a description of how the log shows this; otherwise "". base and next are the
// base and end offsets of the segments that were found, in ascending order; end is the log end
// offset.
//
// A crash loses only records above the recovery point on disk, so their absence is not a loss.
// Records that a truncation, retention or DeleteRecords has removed are not a loss either: a
// truncation lowers the checkpoints before it removes a record, and the other two only raise the
// log start.
func LossOf(known Evidence, base, next []int64, end int64) string {
	written := known.RecoveryPoint
	if known.Missing || known.Clean {
		written = max(written, known.HighWatermark)
	}
	switch {
	case end < written && known.Missing:
		return fmt.Sprintf("the directory is missing; its log ended at %d or later", written)
	case end < written:
		return fmt.Sprintf("the log ends at %d, but was synced up to %d", end, written)
	case !known.Clean:
		return ""
	}
	for _, closed := range known.Segments {
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

// RecordLoss durably stores that the recovered log has lost records. It is called before the
// checkpoints are written again, because new checkpoints describe the log without the lost records.
//
// The caller sets Missing and Clean of known. current is true if the last clean shutdown wrote
// in.Closed.
func RecordLoss(notes *datadir.Notes, in Input, found Found, known Evidence, current bool) error {
	known.RecoveryPoint, known.HighWatermark = in.Saved.RecoveryPoint, in.Saved.HighWatermark
	if current {
		known.Segments = in.Closed.Ranges
		for _, sum := range in.Closed.Segments {
			known.Segments = append(known.Segments, checkpoint.Range{Base: sum.Base,
				Next: sum.Next})
		}
	}
	base, next := make([]int64, len(found.Handles)), make([]int64, len(found.Handles))
	for i, h := range found.Handles {
		base[i], next[i] = h.Base(), h.NextOffset()
	}
	if err := notes.Load(in.Logger.With("partition", in.ID)); err != nil {
		return err
	}
	if cause := LossOf(known, base, next, found.End); cause != "" {
		in.Logger.Error("log has lost records that were on the disk", "partition", in.ID,
			"cause", cause, "logStart", found.LogStart, "logEnd", found.End,
			"recoveryPoint", in.Saved.RecoveryPoint, "highWatermark", in.Saved.HighWatermark)
		return notes.SetLoss(cause)
	}
	return nil
}
