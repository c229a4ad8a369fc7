package outage

import (
	"testing"
	"time"
)

func TestOutageIsReportedOncePerMinuteAtMost(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s State
	for _, step := range []struct {
		after    time.Duration
		fails    bool
		reports  bool
		failures int // expected number of failures, if an end is reported
	}{
		{0, false, false, 0},
		{0, true, true, 0},
		{time.Second, true, false, 0},
		{2 * time.Minute, true, false, 0}, // the outage continues
		{3 * time.Minute, false, true, 3},
		{3 * time.Minute, false, false, 0},
		// more than a minute after the last reported beginning
		{3*time.Minute + time.Second, true, true, 0},
		{3*time.Minute + 2*time.Second, false, true, 1},
		// less than a minute after the last reported beginning
		{3*time.Minute + 3*time.Second, true, false, 0},
		{3*time.Minute + 4*time.Second, false, false, 0},
		{4*time.Minute + time.Second, true, true, 0},
		{4*time.Minute + 2*time.Second, false, true, 1},
	} {
		var failures int
		var reports bool
		if step.fails {
			reports = s.Fail(begin.Add(step.after))
		} else {
			failures, reports = s.Succeed()
		}
		if reports != step.reports || failures != step.failures {
			t.Errorf("after %v, fails %t: got reports %t with %d failures, want %t with %d", step.after,
				step.fails, reports, failures, step.reports, step.failures)
		}
	}
}
