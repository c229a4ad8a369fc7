package cleaner

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// From the moment at which a segment is sealed until its garbage is estimated, the garbage and the
// reason why no pass runs are unknown. Only then is it known that there is too little garbage.
func TestGarbageIsUnknownUntilItIsEstimated(t *testing.T) {
	err := runInScenario(t, func(s *scenario) {
		s.open()
		s.runLines([]string{"config retention=1s garbage=50", "put a=1*300 b=1*300", "roll",
			"wait 5s quietly", "config retention=1h", "put c=1*300 d=1*300", "roll"})
		var first *report.Compaction
		for range 400 { // the flush seals the segment within a second
			time.Sleep(10 * time.Millisecond)
			status := s.cleaner.Status(partition)
			if status.DirtyBytes == 0 {
				continue
			}
			if first == nil {
				first = status
			}
			if status.ReclaimableBytes == nil != (status.Reason == reasonUnknown) {
				fail("reason %s, garbage known: %v", status.Reason, status.ReclaimableBytes != nil)
			}
		}
		if first == nil || first.Reason != reasonUnknown || first.GarbageRatio != nil {
			fail("the first report of the sealed segment is %+v", first)
		}
		last := s.cleaner.Status(partition)
		if last.Reason != reasonNothingToReclaim || last.ReclaimableBytes == nil ||
			last.Runs[runSuccess]+last.Runs[runNothingToDo] != 1 {
			fail("the last report is %+v", last)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
