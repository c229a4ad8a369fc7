package logstore

import (
	"context"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/repair"
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
// verified the checksums of the data file; see package repair.
func (s AtRest) Repair(ctx context.Context, extension string) error {
	l := s.log
	return repair.Segment{Handle: s.handle, Config: l.config.Load().indexes(l.env.segments),
		Files: l.files, List: &l.list, Snapshots: &l.snapshots,
		Sidecars: &l.compaction.Sidecars, Truncating: &l.truncating, Maintain: &l.maintain,
		Mu: &l.mu, AtRest: func() bool { return slices.Contains(l.AtRest(), s) },
	}.Replace(ctx, extension)
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

// StopDamaged stops the log because a segment at rest is damaged: the log then rejects all appends,
// and the partition is offline on this broker. Reads continue.
func (l *Log) StopDamaged(cause error) { l.fault.Fail(cause) }
