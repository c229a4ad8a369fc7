package cleaner

import (
	"testing"
	"time"
)

// TestGarbageIsUnknownUntilItIsEstimated checks that from the time a segment is sealed until its
// garbage is estimated, the garbage and the reason why no pass runs are unknown. Only after the
// estimate is it known that there is too little garbage.
func TestGarbageIsUnknownUntilItIsEstimated(t *testing.T) {
	err := runInScenario(t, func(s *scenario) {
		s.open()
		s.runLines([]string{"config retention=1s garbage=50", "put a=1*300 b=1*300", "roll",
			"wait 5s quietly", "config retention=1h", "put c=1*300 d=1*300"})
		s.cleaner.sidecarSlot <- struct{}{} // prevents estimates
		s.runLines([]string{"roll"})
		time.Sleep(2 * time.Second) // the flush seals the segment within a second
		sealed := s.cleaner.Status(partition)
		if sealed.DirtyBytes == 0 || sealed.Reason != reasonUnknown {
			fail("before the estimate: %d dirty bytes, reason %v", sealed.DirtyBytes, sealed.Reason)
		}
		if sealed.GarbageRatio != nil || sealed.ReclaimableBytes != nil {
			fail("the report before the estimate is %+v", sealed)
		}
		<-s.cleaner.sidecarSlot
		for range 400 {
			time.Sleep(10 * time.Millisecond)
			status := s.cleaner.Status(partition)
			if status.ReclaimableBytes == nil != (status.Reason == reasonUnknown) {
				fail("reason %s, garbage known: %v", status.Reason, status.ReclaimableBytes != nil)
			}
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
