package clean

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// told is what a dumb model remembers of Agreed: everything.
type told struct {
	below int64
	at    time.Time
}

// TestCleaningProgressEqualsModel: no offset is agreed on that was not told, and none
// before it was told, or more than a part of a retention after.
func TestCleaningProgressEqualsModel(t *testing.T) {
	for s := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(s, 0))
		retention := time.Duration(random.IntN(100_000)) * time.Millisecond
		part := max(time.Millisecond, retention/progressResolution)
		var a CleaningProgress
		var all []told
		now := start
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(retention/4) + 2)))
			switch {
			case random.IntN(20) == 0:
				cut := random.Int64N(1000)
				a = a.Truncate(cut)
				for i := range all {
					all[i].below = min(all[i].below, cut)
				}
			default:
				below := random.Int64N(1000)
				a, all = a.Add(below, now, retention), append(all, told{below, now})
			}
			checkAgreed(t, s, a, all, now, retention, part)
		}
	}
}

func checkAgreed(t *testing.T, seed uint64, a CleaningProgress, all []told, now time.Time,
	retention,
	part time.Duration) {
	t.Helper()
	if len(a) > ProgressStepsMax {
		t.Fatalf("seed %d: %d steps", seed, len(a))
	}
	for i := 1; i < len(a); i++ {
		if a[i].Below <= a[i-1].Below || a[i].SinceMs <= a[i-1].SinceMs {
			t.Fatalf("seed %d: steps do not ascend: %v", seed, a)
		}
	}
	for offset := range int64(1000) {
		first, was := time.Time{}, false
		for _, one := range all {
			if !was && one.below > offset {
				first, was = one.at, true
			}
		}
		ms, ok := a.Since(offset)
		since := time.UnixMilli(ms)
		switch {
		case ok != was:
			t.Fatalf("seed %d: offset %d is agreed on: %t, was told: %t; %v", seed, offset, ok, was,
				a)
		case ok && since.Before(first.Truncate(time.Millisecond)):
			t.Fatalf("seed %d: offset %d was told at %v, and is agreed on since %v", seed, offset,
				first, since)
		case ok && since.After(first.Add(part+time.Millisecond)) && since.Add(retention).After(now):
			t.Fatalf(
				"seed %d: offset %d was told at %v, and is agreed on since %v, which is not a retention ago at %v",
				seed,
				offset,
				first,
				since,
				now,
			)
		}
	}
}

func TestCleaningProgressOfASingleReplica(t *testing.T) {
	if since, ok := SingleReplica().Since(math.MaxInt64 - 1); !ok || since != 0 {
		t.Errorf("alone: agreed since %d, %t", since, ok)
	}
	if _, ok := (CleaningProgress{}).Since(0); ok {
		t.Error("nothing was told, and something is agreed on")
	}
	if a := SingleReplica().Truncate(0); len(a) != 0 {
		t.Errorf("all is cut: %v", a)
	}
}
