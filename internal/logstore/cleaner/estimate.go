package cleaner

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// estimate is the estimated garbage of a log between passes. The zero value means unknown garbage.
type estimate struct {
	logstore.Garbage
	made bool // false: there was no estimate yet
}

// reestimateShare defines when the garbage is estimated again: when the dirty section has grown by
// 1/reestimateShare of the log. However often segments roll, the estimates of a growing log
// together then read less of the sidecars than a pass would.
const reestimateShare = 32

// stale reports whether the log has changed too much since the estimate.
func (e estimate) stale(s logstore.Sections) bool {
	was := e.Sections
	grown := s.DirtyBytes - was.DirtyBytes
	return !e.made || was.Truncations != s.Truncations || was.FirstDirty != s.FirstDirty ||
		grown < 0 || grown > 0 && (grown*reestimateShare > s.CleanBytes+s.DirtyBytes || e.Exact)
}

// worthPass reports whether a pass over the dirty section pays: the estimated garbage is more than
// the topic allows to stay, or there is no estimate.
//
// Only a pass detects that a tombstone is the last record of its key, and starts the retention of
// the tombstone. So a dirty section waits for a pass for one retention at most. If all its keys are
// unique, this pass costs one read of the sidecars.
func (e estimate) worthPass(s logstore.Sections, settings *topicconfig.Settings,
	now time.Time) bool {
	if !e.Known || e.Sections.Truncations != s.Truncations ||
		now.Sub(s.OldestDirty) >= settings.TombstoneRetention {
		return true
	}
	share := float64(e.Bytes) / float64(max(1, s.CleanBytes+s.DirtyBytes))
	return e.Bytes > 0 && (share+e.Error)*100 > float64(settings.MaxGarbagePercent)
}

// reclaimable returns the garbage of a log, nil if it is not known. exact is set if a pass has
// counted the garbage. While a pass rewrites, the result is the number of bytes that the pass will
// still free. The caller holds Cleaner.mu.
func (s *logState) reclaimable(of logstore.Sections) (bytes *int64, exact bool) {
	e := s.estimate
	switch {
	case s.running() && s.progress.Measured:
		left := max(0, s.progress.ReclaimableBytes)
		return &left, true
	case of.CleanBytes+of.DirtyBytes == 0:
		return new(int64), false // nothing is cleanable
	case !e.Known || e.Sections.Truncations != of.Truncations:
		return nil, false
	}
	return &e.Bytes, e.Exact && of.DirtyBytes == 0
}
