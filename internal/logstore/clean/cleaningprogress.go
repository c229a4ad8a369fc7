package clean

import (
	"math"
	"slices"
	"time"
)

// CleaningProgress is the replicated cleaning progress of a partition over time. Each step is an
// offset below which the tombstones and markers of all replicas were removable, and the time since
// which they were (X1, X2). The retention of a tombstone does not start before that time (X3):
// earlier, a consumer may have read on one replica the record that the tombstone deletes, and may
// continue on any other.
//
// Progress is never lost. A record older than a tombstone reaches a log only as a copy from a log
// that contains it; only a truncation reuses the offset of a tombstone, which is what Truncate is
// for. So the steps survive changes of the leader, and a decrease of the current progress.
//
// Invariant: Below and SinceMs strictly ascend from step to step. The zero value is no progress.
type CleaningProgress []ProgressStep

// ProgressStep is one step of a CleaningProgress: tombstones below the offset have been removable
// on all replicas since SinceMs.
type ProgressStep struct {
	Below, SinceMs int64
}

// SingleReplica returns the CleaningProgress of a log without other replicas.
func SingleReplica() CleaningProgress { return CleaningProgress{{Below: math.MaxInt64}} }

const (
	// progressResolution is the number of intervals of a retention in which steps are
	// distinguished: a step takes effect at the end of its interval. This bounds the number of
	// steps, however often the replicas report. A tombstone may be removed up to one interval
	// later, but never earlier.
	progressResolution = 16
	// ProgressStepsMax is the largest number of steps.
	ProgressStepsMax = 2 * progressResolution
)

// Since returns the time since which the tombstones at an offset have been removable on all
// replicas; ok is false if they are not removable on all replicas yet.
func (c CleaningProgress) Since(offset int64) (ms int64, ok bool) {
	at, _ := slices.BinarySearchFunc(c, offset, func(s ProgressStep, o int64) int {
		if s.Below <= o {
			return -1
		}
		return 1
	})
	if at == len(c) {
		return 0, false
	}
	return c[at].SinceMs, true
}

// Add returns the progress after all replicas have reported, by now, that their tombstones below an
// offset are removable.
func (c CleaningProgress) Add(below int64, now time.Time,
	retention time.Duration) CleaningProgress {
	last := len(c) - 1
	if last >= 0 && below <= c[last].Below || below <= 0 {
		return c
	}
	interval := max(1, retention.Milliseconds()/progressResolution)
	since := (now.UnixMilli() + interval - 1) / interval * interval
	next := slices.Clone(c)
	// The report is in the same interval as the last step, or the clock was set back. The last step
	// keeps its time and gets the new offset: a time that is too late is permitted.
	if last >= 0 && c[last].SinceMs >= since {
		next[last].Below = below
	} else {
		next = append(next, ProgressStep{below, since})
	}
	// Steps older than one retention no longer need to be distinguished. If there are too many
	// steps, the oldest is dropped.
	for len(next) > 1 && (next[1].SinceMs+retention.Milliseconds() <= now.UnixMilli() ||
		len(next) > ProgressStepsMax) {
		next = next[1:]
	}
	return next
}

// Truncate returns the progress after the log was truncated to an offset: other records may be
// appended from there on.
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
