package clean

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// progressReport contains the arguments of one call of CleaningProgress.Add. The model keeps all
// reports.
type progressReport struct {
	below  int64
	moment time.Time
}

// TestCleaningProgressEqualsModel calls Add and Truncate with random arguments, and compares Since
// with the list of all reports. Since must return a time for exactly the reported offsets. The time
// must not be before the report, and must be at most one interval after it.
func TestCleaningProgressEqualsModel(t *testing.T) {
	for s := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(s, 0))
		retention := time.Duration(random.IntN(100_000)) * time.Millisecond
		interval := max(time.Millisecond, retention/progressResolution)
		var c CleaningProgress
		var all []progressReport
		now := start
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(retention/4) + 2)))
			switch {
			case random.IntN(20) == 0:
				cut := random.Int64N(1000)
				c = c.Truncate(cut)
				for i := range all {
					all[i].below = min(all[i].below, cut)
				}
			default:
				below := random.Int64N(1000)
				c, all = c.Add(below, now, retention), append(all, progressReport{below, now})
			}
			checkProgress(t, s, c, all, now, retention, interval)
		}
	}
}

func checkProgress(t *testing.T, seed uint64, c CleaningProgress, all []progressReport,
	now time.Time, retention, interval time.Duration) {
	t.Helper()
	if len(c) > ProgressStepsMax {
		t.Fatalf("seed %d: %d steps", seed, len(c))
	}
	for i := 1; i < len(c); i++ {
		if c[i].Below <= c[i-1].Below || c[i].SinceMs <= c[i-1].SinceMs {
			t.Fatalf("seed %d: steps do not ascend: %v", seed, c)
		}
	}
	for offset := range int64(1000) {
		first, reported := time.Time{}, false
		for _, one := range all {
			if !reported && one.below > offset {
				first, reported = one.moment, true
			}
		}
		ms, ok := c.Since(offset)
		since := time.UnixMilli(ms)
		switch {
		case ok != reported:
			t.Fatalf("seed %d: progress at offset %d is %t, reported %t; %v", seed, offset, ok,
				reported, c)
		case ok && since.Before(first.Truncate(time.Millisecond)):
			t.Fatalf("seed %d: offset %d was reported at %v, and has progress since %v", seed,
				offset, first, since)
		case ok && since.After(first.Add(interval+time.Millisecond)) &&
			since.Add(retention).After(now):
			t.Fatalf("seed %d: offset %d was reported at %v, and has progress since %v, "+
				"which is less than a retention ago at %v", seed, offset, first, since, now)
		}
	}
}

func TestCleaningProgressOfASingleReplica(t *testing.T) {
	if since, ok := SingleReplica().Since(math.MaxInt64 - 1); !ok || since != 0 {
		t.Errorf("single replica: progress since %d, %t", since, ok)
	}
	if _, ok := (CleaningProgress{}).Since(0); ok {
		t.Error("the zero value has progress")
	}
	if c := SingleReplica().Truncate(0); len(c) != 0 {
		t.Errorf("progress of an empty log: %v", c)
	}
}
