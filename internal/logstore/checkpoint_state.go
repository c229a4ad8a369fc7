package logstore

import (
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
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

// unknownOffset is the value of an offset that no checkpoint contains for a partition.
const unknownOffset = -1
