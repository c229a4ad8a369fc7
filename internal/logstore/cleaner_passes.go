package logstore

import (
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// passReport is what is told of a pass, with the sums so far.
func passReport(trigger string, began time.Time, s clean.Stats) *report.Pass {
	return &report.Pass{
		Trigger: trigger, Began: *unixSeconds(began),
		ReadBytes: s.LogReadBytes, WrittenBytes: s.LogWrittenBytes,
		SidecarReadBytes: s.SidecarReadBytes, SidecarWrittenBytes: s.SidecarWrittenBytes,
		ReclaimedBytes: s.ReclaimedBytes, RemovedRecords: s.RecordsRemoved,
		RemovedTombstones: s.TombstonesRemoved,
		RewrittenSegments: s.SegmentsRewritten, UntouchedSegments: s.SegmentsUntouched,
		MemoryPeakBytes: s.MemoryPeakBytes,
	}
}

// runningPass is the pass that runs, nil if none does or it waits for its first turn. It needs
// Cleaner.mu.
func (s *cleanerState) runningPass() *report.Pass {
	if !s.running() || s.fresh {
		return nil
	}
	return passReport(s.trigger, s.began, s.progress.Stats)
}

// endPass notes the pass that ends now as the last one, and as that of the request it was begun
// for. A request whose pass was aborted is not served: it is made again. It needs Cleaner.mu.
func (s *cleanerState) endPass(now time.Time, stats clean.Stats, result string, err error) {
	s.last = passReport(s.trigger, s.began, stats)
	s.last.Ended, s.last.Result = unixSeconds(now), result
	if err != nil {
		s.last.Error = err.Error()
	}
	if result != runAborted {
		s.served = max(s.served, s.serving)
	}
	s.serving = 0
}
