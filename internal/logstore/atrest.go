package logstore

import (
	"context"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/reader"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// AtRest is a sealed segment below the recovery point on disk. Its files do not change until a
// truncation, retention or the cleaner replaces or removes them.
type AtRest struct {
	Base      int64
	SizeBytes int64

	handle *segmentlist.Handle // for comparison only; holds no reference
	log    *Log
}

// Repair rebuilds the derived file with the given extension from the data file. The caller has
// verified the checksums of the data file; see package repair. If the log closes meanwhile, the
// repair ends with segmentlist.ErrChanged before the log has closed, as does ReplaceRecords.
func (s AtRest) Repair(ctx context.Context, extension string, pace repair.Pace) error {
	return s.log.compaction.Repairs.Do(ctx, func(ctx context.Context) error {
		return s.repair(pace).Replace(ctx, extension)
	})
}

// ReplaceRecords replaces the damaged batches of the segment by those of another in-sync replica;
// see repair.Records. The log must not be stopped.
func (s AtRest) ReplaceRecords(ctx context.Context, source repair.Source, pace repair.Pace) error {
	return s.log.compaction.Repairs.Do(ctx, func(ctx context.Context) error {
		return s.replaceRecords(ctx, source, pace)
	})
}

func (s AtRest) replaceRecords(ctx context.Context, source repair.Source, pace repair.Pace) error {
	l := s.log
	if hw := l.HighWatermark(); s.handle.NextOffset() > hw {
		return fmt.Errorf("%w: the segment is above the high watermark %d", repair.ErrSource, hw)
	}
	if !l.compaction.Rewriting.TryLock() {
		return fmt.Errorf("%w: a pass runs", segmentlist.ErrChanged)
	}
	defer l.compaction.Rewriting.Unlock()
	truncations, start := l.truncations.Load(), l.LogStart()
	firstDirty := l.compaction.Progress.FirstDirtyIn(start, l.LogEnd())
	return repair.Records{Segment: s.repair(pace), Source: source, LogStart: start,
		Cleaned:   s.Base < firstDirty && firstDirty > start,
		Compacted: l.Settings().Compact || l.compaction.Sidecars.Salt.Load() != nil,
		Swap: func(damaged, replacement []*segment.Segment) error {
			return l.replaceIn(truncations, damaged, replacement)
		},
	}.Replace(ctx)
}

// Verification determines which batches reads verify.
type Verification = reader.Verification

// These are the values of Verification.
const (
	VerifyOnce   = reader.VerifyOnce
	VerifyAlways = reader.VerifyAlways
	VerifyNever  = reader.VerifyNever
)

// SetVerification sets which batches reads verify; VerifyOnce before the first call.
func (s *Store) SetVerification(v Verification) { s.verification.Store(int32(v)) }

// MarkVerified records that the caller has verified each batch of the segment. It clears the mark
// of MarkDamaged, which a temporary error of a read can also have set.
func (s AtRest) MarkVerified() {
	s.handle.SetVerified()
	s.handle.Damaged.Store(false)
}

// Damaged reports whether damage was found in the segment's batches.
func (s AtRest) Damaged() bool { return s.handle.Damaged.Load() }

// MarkDamaged makes readers verify each batch of the segment before they return it.
func (s AtRest) MarkDamaged() { s.handle.Damaged.Store(true) }

// repair returns the segment as package repair uses it.
func (s AtRest) repair(pace repair.Pace) repair.Segment {
	l := s.log
	return repair.Segment{Handle: s.handle, Config: l.config.Load().indexes(l.env.segments),
		Files: l.files, List: &l.list, Snapshots: &l.snapshots,
		Sidecars: &l.compaction.Sidecars, Pace: pace, Truncating: &l.truncating, Maintain: &l.maintain,
		Mu: &l.mu, AtRest: func() bool { return slices.Contains(l.AtRest(), s) },
	}
}

// AtRest returns the sealed segments that end at or below the recovery point on disk, in ascending
// order. It returns nil once the log is closed.
func (l *Log) AtRest() (segments []AtRest) {
	list := l.list.Acquire()
	if list == nil {
		return nil
	}
	defer list.Release()
	end := l.disk.SealedEnd() // loaded after the list, as in Compaction.limits
	for _, h := range list.Handles[:len(list.Handles)-1] {
		if h.NextOffset() > end {
			break
		}
		segments = append(segments, AtRest{h.Base(), h.SizeBytes(), h, l})
	}
	return segments
}

// StillAtRest reports whether the log has kept the segment since AtRest returned it, and no
// operation on the segment's files is running. If so, what the caller has read from the files since
// then is valid: swaps, retention and truncations rename and remove files only under the locks that
// StillAtRest acquires, and publish another handle before they release these locks.
func (l *Log) StillAtRest(s AtRest) bool {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	return slices.Contains(l.AtRest(), s)
}

// Dir returns the partition's directory.
func (l *Log) Dir() string { return l.dir }

// Fail stops the log as a failed disk does: the log then rejects all appends, and the partition is
// offline on this broker. Reads continue. Only tests call it.
func (l *Log) Fail(cause error) { l.fault.Fail(cause) }
