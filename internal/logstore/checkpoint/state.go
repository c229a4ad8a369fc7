package checkpoint

import (
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// State is the content of the checkpoint files for one partition.
type State struct {
	// LogStart, HighWatermark and FirstDirty are 0 if no checkpoint lists the partition.
	LogStart      int64
	RecoveryPoint int64 // UnknownOffset if recovery has to scan every segment
	HighWatermark int64
	FirstDirty    int64
	// Horizon is 0 (unknown) after a Release. The next pass then searches for tombstones.
	Horizon        int64
	TombstoneClean int64                  // 0 for a retained log, for which the next pass computes it
	Progress       clean.CleaningProgress // nil for a retained log
	// Aborted covers the segments below the recovery point; nil for a retained log.
	Aborted AbortedCounts
}

// Merge combines two checkpoint states of one log. Fields never decrease during the life of a log,
// so Merge returns the larger value of each field. The exception is the delete horizon, which may
// decrease: Merge sets it to 0 (unknown), which makes the next pass search for tombstones. Merge
// also resets the other fields about tombstones, because they were not updated meanwhile.
func (s State) Merge(other State) State {
	return State{
		LogStart:      max(s.LogStart, other.LogStart),
		RecoveryPoint: max(s.RecoveryPoint, other.RecoveryPoint),
		HighWatermark: max(s.HighWatermark, other.HighWatermark),
		FirstDirty:    max(s.FirstDirty, other.FirstDirty),
		Aborted:       s.Aborted,
	}
}

// UnknownOffset represents an offset that no checkpoint contains for a partition.
const UnknownOffset = -1

// Within returns the state without offsets above the end of a log that was closed cleanly. Such an
// offset is a damaged digit in a checkpoint. changed reports whether there was one.
func (s State) Within(end int64) (within State, changed bool) {
	within = s
	within.RecoveryPoint = min(s.RecoveryPoint, end)
	within.HighWatermark = min(s.HighWatermark, end)
	if s.LogStart > end {
		within.LogStart = 0
	}
	return within, within.RecoveryPoint != s.RecoveryPoint ||
		within.HighWatermark != s.HighWatermark || within.LogStart != s.LogStart
}
