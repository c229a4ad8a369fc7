package clean

import (
	"math"
	"slices"
	"time"
)

// CleaningProgress is since when all replicas of a partition are known to have their tombstones and
// markers alone: Since is when the last of them had told that in its log nothing older is left of
// what is deleted below an offset (X1, X2). A tombstone's retention begins no earlier (X3): until
// then a consumer may have read on one replica what the tombstone deletes, and may go on at any
// other.
//
// What was agreed on stays true. Nothing older than a tombstone comes into any log but as a copy of
// another that has it; only a truncation gives its offset to something else, and Cut is for that.
// So the steps outlive leaders, and a limit that falls (Limit).
//
// Invariants: Below and Since ascend strictly from step to step. The zero value: nothing is agreed
// on.
type CleaningProgress []ProgressStep

// ProgressStep is one step of Agreed: what lies below the offset is agreed on since then (ms).
type ProgressStep struct {
	Below, SinceMs int64
}

// SingleReplica is Agreed of a log that has no other replicas.
func SingleReplica() CleaningProgress { return CleaningProgress{{Below: math.MaxInt64}} }

const (
	// agreedSteps is into how many parts of a retention the steps are told apart: what comes within
	// one part counts from its end. So there are hardly more of them, however often the replicas
	// report; a tombstone goes up to so much later, none earlier.
	agreedSteps = 16
	// ProgressStepsMax is the most steps there ever are.
	ProgressStepsMax = 2 * agreedSteps
)

// Since is since when what lies at an offset is agreed on; ok is false if it is not yet.
func (a CleaningProgress) Since(offset int64) (ms int64, ok bool) {
	at, _ := slices.BinarySearchFunc(a, offset, func(s ProgressStep, o int64) int {
		if s.Below <= o {
			return -1
		}
		return 1
	})
	if at == len(a) {
		return 0, false
	}
	return a[at].SinceMs, true
}

// Add is Agreed once all replicas have told, by now, that theirs are alone below an offset.
func (a CleaningProgress) Add(below int64, now time.Time, retention time.Duration) CleaningProgress {
	last := len(a) - 1
	if last >= 0 && below <= a[last].Below || below <= 0 {
		return a
	}
	part := max(1, retention.Milliseconds()/agreedSteps)
	since := (now.UnixMilli() + part - 1) / part * part
	next := slices.Clone(a)
	// in the same part, or the clock went back: later is allowed
	if last >= 0 && a[last].SinceMs >= since {
		next[last].Below = below
	} else {
		next = append(next, ProgressStep{below, since})
	}
	// What is older than a retention need not be told apart any more; nor the oldest, should there
	// be too many.
	for len(next) > 1 && (next[1].SinceMs+retention.Milliseconds() <= now.UnixMilli() ||
		len(next) > ProgressStepsMax) {
		next = next[1:]
	}
	return next
}

// Truncate is Agreed without what it says of offsets from one on: other records may come there.
func (a CleaningProgress) Truncate(offset int64) CleaningProgress {
	for i, s := range a {
		if s.Below < offset {
			continue
		}
		if offset <= 0 {
			return nil
		}
		return append(slices.Clone(a[:i]), ProgressStep{offset, s.SinceMs})
	}
	return a
}
