package cleaner

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// lazy returns settings with which only storage pressure triggers a pass.
func lazy(segmentBytes int64) topicconfig.Settings {
	return compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent, s.MaxGarbagePercent = segmentBytes, 100, 100
		s.TombstoneRetention = 1000 * time.Hour
	})
}

func TestStoragePressureIgnoresTheDirtyRatio(t *testing.T) {
	inBubble(t, lazy(20_000), Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 10_000, 100)
		wait(time.Minute)
		f.wantReason(reasonBelowDirtyRatio)
		f.cleaner.SetPressure(Severe)
		wait(time.Minute)
		status := f.cleaner.Status(partition)
		if status.Runs[runSuccess] == 0 || status.LastPass.Trigger != report.TriggerPressure ||
			*status.ReclaimableBytes != 0 {
			t.Errorf("status %+v, want a pass that left no garbage", status)
		}
		before := status.Runs[runSuccess] + status.Runs[runNothingToDo]
		wait(time.Hour)
		status = f.cleaner.Status(partition)
		if after := status.Runs[runSuccess] + status.Runs[runNothingToDo]; after > before {
			t.Errorf("%d passes of a log without garbage", after-before)
		}
	})
}

// TestStoragePressureRollsActiveSegments uses a log whose records are all in the active segment,
// which no pass may clean. The segment is rolled at once, and then at most once a minute.
func TestStoragePressureRollsActiveSegments(t *testing.T) {
	inBubble(t, lazy(64<<20), Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 10_000, 100)
		wait(time.Minute)
		f.wantReason(reasonActiveSegmentOnly)
		f.cleaner.SetPressure(Severe)
		wait(30 * time.Second)
		if n := len(readKeys(t, f.log, 0)); n != 100 {
			t.Fatalf("%d records are left of 100 keys", n)
		}
		f.fillWith(f.log, 10_000, 100)
		wait(20 * time.Second)
		if n := len(readKeys(t, f.log, 0)); n != 10_100 {
			t.Errorf("%d records before the next roll, want 10100", n)
		}
		wait(time.Minute)
		if n := len(readKeys(t, f.log, 0)); n != 100 {
			t.Errorf("%d records are left of 100 keys after the next roll", n)
		}
	})
}

// TestStoragePressurePrefersTheMostGarbage uses two logs. The log with less garbage has waited much
// longer for its pass and has a higher dirty ratio, but the other log is compacted first.
func TestStoragePressurePrefersTheMostGarbage(t *testing.T) {
	now := epoch0
	settings := lazy(1 << 20)
	priority := func(clean, dirty, garbage int64, waited time.Duration) float64 {
		s := compaction.Sections{CleanBytes: clean, DirtyBytes: dirty}
		state := &logState{pressure: Severe, due: now.Add(-waited)}
		state.estimate = estimate{made: true,
			Garbage: compaction.Garbage{Sections: s, Known: true, Bytes: garbage}}
		due := state.passDue(logView{settings: &settings, Sections: s}, now)
		if due.trigger != report.TriggerPressure || due.early {
			t.Fatalf("due %+v, want a pass because of storage pressure", due)
		}
		return state.priority(due, now)
	}
	const mib = 1 << 20
	priorities := []float64{
		priority(0, 10*mib, 2*mib, 5*time.Minute),
		priority(100*mib, 10*mib, 5*mib, 0),
		priority(1000*mib, 10*mib, 500*mib, 0),
	}
	if !slices.IsSorted(priorities) {
		t.Errorf("priorities %v, want them in ascending order", priorities)
	}
}

// TestLittleGarbageNeedsNoPassUnderPressure checks that a pass is not worth its cost if it frees
// less than a mebibyte, or less than 5 % of a log (1 % under severe pressure). The next pass waits
// for ten seconds, or for a minute if nothing was appended.
func TestLittleGarbageNeedsNoPassUnderPressure(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		pressure              Pressure
		clean, dirty, garbage int64
		known                 bool
		after                 time.Duration // time since the last pass ended
		want                  int64
	}{
		{Moderate, 10 * mib, mib, mib / 20, true, time.Hour, 0},
		{Severe, mib, mib, mib / 2, true, time.Hour, 0},
		{Moderate, 1000 * mib, mib, 40 * mib, true, time.Hour, 0},
		{Moderate, 1000 * mib, mib, 60 * mib, true, time.Hour, 60 * mib},
		{Severe, 1000 * mib, mib, 5 * mib, true, time.Hour, 0},
		{Severe, 1000 * mib, mib, 40 * mib, true, time.Hour, 40 * mib},
		{Severe, 1000 * mib, mib, 40 * mib, true, time.Second, 0},
		{Moderate, 10 * mib, 4 * mib, 0, false, time.Hour, 2 * mib},
		{Moderate, 10 * mib, 0, 4 * mib, true, 30 * time.Second, 0},
		{Moderate, 10 * mib, 0, 4 * mib, true, time.Hour, 4 * mib},
	} {
		s := compaction.Sections{CleanBytes: test.clean, DirtyBytes: test.dirty}
		in := triggerInputs{pressure: test.pressure, garbageAfter: epoch0.Add(garbageRetry),
			pressureAfter: epoch0.Add(pressureRetry)}
		in.estimate.Known, in.estimate.Bytes = test.known, test.garbage
		if got := in.underPressure(s, epoch0.Add(test.after)); got != test.want {
			t.Errorf("%+v: garbage %d, want %d", test, got, test.want)
		}
		in.pressure = NoPressure
		if got := in.underPressure(s, epoch0.Add(test.after)); got != 0 {
			t.Errorf("%+v: garbage %d without storage pressure", test, got)
		}
	}
}

// TestModeratePressureKeepsLittleGarbage checks that a few dead records in each segment cause no
// pass under moderate pressure, and that a pass under severe pressure removes them.
func TestModeratePressureKeepsLittleGarbage(t *testing.T) {
	inBubble(t, lazy(20_000), Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 30_000, 29_000)
		f.cleaner.SetPressure(Moderate)
		wait(time.Minute)
		if runs := f.cleaner.Status(partition).Runs[runSuccess]; runs != 0 {
			t.Errorf("%d passes because of 3 %% of garbage", runs)
		}
		f.fillWith(f.log, 29_000, 29_000)
		wait(2 * time.Minute)
		status := f.cleaner.Status(partition)
		share := float64(*status.ReclaimableBytes) /
			float64(status.CleanBytes+status.DirtyBytes)
		if status.Runs[runSuccess] == 0 || share > 0.05 {
			t.Errorf("status %+v, share of garbage %v, want a pass that left at most 5 %%", status, share)
		}
	})
}
