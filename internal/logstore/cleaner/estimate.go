package cleaner

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// estimate is a log's estimated garbage, as of the last estimate or pass. The zero value means that
// the garbage is unknown.
type estimate struct {
	compaction.Garbage
	made bool // true if an estimate was computed
}

// reestimateShare defines when the garbage is estimated again: when the dirty section has grown by
// more than 1/reestimateShare of the log. Even if segments roll often, all estimates of a growing
// log together therefore read less of the sidecars than one pass does.
const reestimateShare = 32

// stale reports whether the log has changed too much for the estimate to be used. s are the log's
// current sections.
func (e estimate) stale(s compaction.Sections) bool {
	was := e.Sections
	grown := s.DirtyBytes - was.DirtyBytes
	return !e.made || was.Truncations != s.Truncations || was.FirstDirty != s.FirstDirty ||
		s.Deleted && was.LogStart != s.LogStart ||
		grown < 0 || grown > 0 && (grown*reestimateShare > s.CleanBytes+s.DirtyBytes || e.Exact)
}

// worthPass reports whether a pass over the dirty section is worth its cost: the estimated garbage
// is more than the topic's maxGarbage, or the garbage is unknown.
//
// Only a pass detects that a tombstone has no older record of its key, and starts the tombstone's
// retention. So a dirty section waits for a pass for at most one tombstone retention. If all keys
// of the log are unique, this pass only reads the sidecars once.
func (e estimate) worthPass(s compaction.Sections, settings *topicconfig.Settings,
	now time.Time) bool {
	if !e.Known || e.Sections.Truncations != s.Truncations ||
		now.Sub(s.OldestDirty) >= settings.TombstoneRetention {
		return true
	}
	share := float64(e.Bytes) / float64(max(1, s.CleanBytes+s.DirtyBytes))
	return e.Bytes > 0 && (share+e.Error)*100 > float64(settings.MaxGarbagePercent)
}

// reclaimable returns a log's garbage in bytes, or nil if it is unknown. exact is true if a pass
// has counted the garbage. While a pass rewrites segments, the result is the number of bytes that
// the pass will still free. The caller holds Cleaner.mu.
func (s *logState) reclaimable(view compaction.Sections) (bytes *int64, exact bool) {
	e := s.estimate
	switch {
	case s.running() && s.progress.Measured:
		left := max(0, s.progress.ReclaimableBytes)
		return &left, true
	case view.CleanBytes+view.DirtyBytes == 0:
		return new(int64), false // no segment is cleanable
	case !e.Known || e.stale(view): // the log has changed too much since its last estimate
		return nil, false
	}
	return &e.Bytes, e.Exact && view.DirtyBytes == 0
}
