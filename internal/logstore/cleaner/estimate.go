package cleaner

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// estimate is what is known of a log's garbage between passes. The zero value is unknown.
type estimate struct {
	logstore.Garbage
	made bool // false: there was no estimate yet
}

// reestimateShare is the growth of the dirty section, as one in so many of the log, after which the
// garbage is estimated again. However often segments roll, the estimates of a growing log then read
// less of the sidecars than a pass would.
const reestimateShare = 32

// stale reports whether the log has changed too much since the estimate.
func (e estimate) stale(s logstore.Sections) bool {
	was := e.Sections
	grown := s.DirtyBytes - was.DirtyBytes
	return !e.made || was.Lineage != s.Lineage || was.FirstDirty != s.FirstDirty || grown < 0 ||
		grown > 0 && (grown*reestimateShare > s.CleanBytes+s.DirtyBytes || e.Exact)
}

// worthPass reports whether a pass over the dirty section pays: it would find more garbage than the
// topic allows to stay, or that is not known.
//
// Only a pass detects that a tombstone is the last record of its key, and starts its retention. So
// a dirty section waits for one retention at most; if its keys are unique, the pass costs one read
// of the sidecars.
func (e estimate) worthPass(s logstore.Sections, settings *topicconfig.Settings,
	now time.Time) bool {
	if !e.Known || e.Sections.Lineage != s.Lineage ||
		now.Sub(s.OldestDirty) >= settings.TombstoneRetention {
		return true
	}
	share := float64(e.Bytes) / float64(max(1, s.CleanBytes+s.DirtyBytes))
	return e.Bytes > 0 && (share+e.Error)*100 > float64(settings.MaxGarbagePercent)
}

// reclaimable returns the garbage of a log, nil if it is not known, and whether a pass has counted
// it. While a pass rewrites, it is what the pass will still free. It needs Cleaner.mu.
func (s *logState) reclaimable(of logstore.Sections) (bytes *int64, exact bool) {
	e := s.estimate
	switch {
	case s.running() && s.progress.Measured:
		left := max(0, s.progress.ReclaimableBytes)
		return &left, true
	case of.CleanBytes+of.DirtyBytes == 0:
		return new(int64), false // nothing is cleanable
	case !e.Known || e.Sections.Lineage != of.Lineage:
		return nil, false
	}
	return &e.Bytes, e.Exact && of.DirtyBytes == 0
}
