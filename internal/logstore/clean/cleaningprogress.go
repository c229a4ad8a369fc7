package clean

import (
	"math"
	"slices"
	"time"
)

// CleaningProgress is the replicated cleaning progress of a partition over time. A step consists of
// an offset and a time since which all tombstones and markers below this offset have been removable
// on all replicas (X1, X2). The retention of these tombstones does not start before that time (X3).
// A consumer that read a record from one replica before that time may continue on another replica,
// and must still find the record's tombstone there.
//
// A step remains valid after a change of the leader, and after a later report of a lower offset.
// Once no replica contains a record that is older than the tombstone of its key, no replica can
// receive such a record again, because replicas copy records only from each other. A truncation
// invalidates steps, because other records may be appended at the truncated offsets; see Truncate.
//
// Invariant: Below and SinceMs strictly ascend from step to step. The zero value permits no
// removal.
type CleaningProgress []ProgressStep

// ProgressStep is one step of a CleaningProgress: tombstones below the offset Below have been
// removable on all replicas since SinceMs.
type ProgressStep struct {
	Below, SinceMs int64
}

// SingleReplica returns the CleaningProgress of a log without other replicas.
func SingleReplica() CleaningProgress { return CleaningProgress{{Below: math.MaxInt64}} }

const (
	// progressResolution is the number of intervals into which a tombstone retention is divided.
	// The time of a step is the end of the interval in which the replicas reported it. This limits
	// the number of steps, however often the replicas report. A tombstone may be removed later by
	// at most one interval, but never earlier.
	progressResolution = 16
	// ProgressStepsMax is the largest number of steps.
	ProgressStepsMax = 2 * progressResolution
)

// Since returns the time since which the tombstones at an offset have been removable on all
// replicas. If they are not yet removable on all replicas, ok is false.
func (c CleaningProgress) Since(offset int64) (ms int64, ok bool) {
	index, _ := slices.BinarySearchFunc(c, offset, func(s ProgressStep, o int64) int {
		if s.Below <= o {
			return -1
		}
		return 1
	})
	if index == len(c) {
		return 0, false
	}
	return c[index].SinceMs, true
}

// Add returns the progress with one more report: at the time now, the tombstones below the given
// offset are removable on all replicas.
func (c CleaningProgress) Add(below int64, now time.Time,
	retention time.Duration) CleaningProgress {
	last := len(c) - 1
	if last >= 0 && below <= c[last].Below || below <= 0 {
		return c
	}
	interval := max(1, retention.Milliseconds()/progressResolution)
	since := (now.UnixMilli() + interval - 1) / interval * interval
	next := slices.Clone(c)
	// If the report is in the last step's interval, or the clock was set back, the last step's
	// offset is raised and its time is kept. The time may be later than the report, which only
	// delays removals.
	if last >= 0 && c[last].SinceMs >= since {
		next[last].Below = below
	} else {
		next = append(next, ProgressStep{below, since})
	}
	// A step is dropped once the next step is older than one retention, because the tombstones
	// below both offsets have then been removable long enough. If there are still too many steps,
	// the oldest step is dropped, which only delays removals.
	for len(next) > 1 && (next[1].SinceMs+retention.Milliseconds() <= now.UnixMilli() ||
		len(next) > ProgressStepsMax) {
		next = next[1:]
	}
	return next
}

// Truncate returns the progress after the log was truncated to an offset. It lowers all higher
// steps to this offset, because other records may be appended at and above it.
func (c CleaningProgress) Truncate(offset int64) CleaningProgress {
	for i, s := range c {
		if s.Below < offset {
			continue
		}
		if offset <= 0 {
			return nil
		}
		return append(slices.Clone(c[:i]), ProgressStep{offset, s.SinceMs})
	}
	return c
}
