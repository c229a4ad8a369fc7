package outage

import (
	"testing"
	"time"
)

func TestAnOutageIsToldOnceAMinuteAtMost(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s State
	for _, step := range []struct {
		after  time.Duration
		fails  bool
		tells  bool
		failed int // when its end is told
	}{
		{0, false, false, 0},
		{0, true, true, 0},
		{time.Second, true, false, 0},
		{2 * time.Minute, true, false, 0}, // one outage, however long
		{3 * time.Minute, false, true, 3},
		{3 * time.Minute, false, false, 0},
		{3*time.Minute + time.Second, true, true, 0}, // a minute after the last beginning
		{3*time.Minute + 2*time.Second, false, true, 1},
		{3*time.Minute + 3*time.Second, true, false, 0}, // it flickers
		{3*time.Minute + 4*time.Second, false, false, 0},
		{4*time.Minute + time.Second, true, true, 0},
		{4*time.Minute + 2*time.Second, false, true, 1},
	} {
		var failed int
		var tells bool
		if step.fails {
			tells = s.Fail(begin.Add(step.after))
		} else {
			failed, tells = s.Succeed()
		}
		if tells != step.tells || failed != step.failed {
			t.Errorf("after %v, fails %t: tells %t of %d failures, want %t of %d", step.after,
				step.fails, tells, failed, step.tells, step.failed)
		}
	}
}
