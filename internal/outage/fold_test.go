package outage

import (
	"testing"
	"time"
)

func TestEqualEventsAreLoggedOncePerMinute(t *testing.T) {
	var f Fold[string]
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after  time.Duration
		key    string
		logs   bool
		folded int
	}{
		{0, "a", true, 0}, {0, "b", true, 0}, {time.Second, "a", false, 0},
		{59 * time.Second, "a", false, 0}, {59 * time.Second, "c", true, 0},
		{time.Minute, "b", true, 2}, {time.Minute, "a", true, 0},
	} {
		folded, logs := f.Add(step.key, begin.Add(step.after))
		if logs != step.logs || folded != step.folded {
			t.Errorf("after %v, %s: got %t with %d, want %t with %d", step.after, step.key, logs,
				folded, step.logs, step.folded)
		}
	}
}

func TestFoldIsBounded(t *testing.T) {
	var f Fold[int]
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 * foldKeysMax {
		if _, logs := f.Add(i, now); logs != (i < foldKeysMax) {
			t.Fatalf("event %d: logged %t", i, logs)
		}
	}
	if len(f.counts) != foldKeysMax {
		t.Errorf("%d kinds of events are in memory", len(f.counts))
	}
	if folded, _ := f.Add(0, now.Add(interval)); folded != 2*foldKeysMax {
		t.Errorf("%d events were folded, want %d", folded, 2*foldKeysMax)
	}
}
