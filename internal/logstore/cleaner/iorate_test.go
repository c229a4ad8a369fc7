package cleaner

import (
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
)

// TestRateIsThatOfTheLastSeconds measures a pass that reads 100 bytes per second for a minute, then
// 10 bytes per second, then nothing.
func TestRateIsThatOfTheLastSeconds(t *testing.T) {
	var r ioRate
	began, bytes := time.Unix(1000, 0), int64(0)
	if r.perSecond(began, 0) != nil {
		t.Error("a pass without samples has a rate")
	}
	want := func(second int, most, least float64) {
		t.Helper()
		got := r.perSecond(began.Add(time.Duration(second)*time.Second), bytes)
		if got == nil || *got > most || *got < least {
			t.Errorf("second %d: got %v, want %v to %v", second, got, least, most)
		}
	}
	for tick := range 1200 { // ten ticks per second
		r.add(began.Add(time.Duration(tick)*time.Second/10), bytes)
		switch {
		case tick == 5 && r.perSecond(began.Add(time.Second/2), bytes) != nil:
			t.Error("the first second has a rate")
		case tick == 300, tick == 590:
			want(tick/10, 101, 99)
		case tick == 650:
			want(65, 60, 50) // half of the window
		case tick == 800:
			want(80, 10.5, 9.5)
		}
		if bytes += 10; tick >= 600 {
			bytes -= 9
		}
	}
	want(1000, 0.1, 0)
	if len(r.samples) > 12 {
		t.Errorf("%d samples are kept", len(r.samples))
	}
}

// TestPassReportsRateAndThrottledTime runs a pass that shares a limit of 200 KB/s with builds of
// sidecars in the background. The pass's report contains the rate while the pass runs, and the
// throttled time even after the pass.
func TestPassReportsRateAndThrottledTime(t *testing.T) {
	inBubble(t, compacted(nil), Options{IOBytesRate: 200_000},
		func(t *testing.T, f *fixture) {
			keys, _ := updatesOf(40_000, 3000)
			f.put(keys...)
			f.cleanNow()
			var running *report.Pass
			f.until(10*time.Minute, "a pass that runs for 10 s", func() bool {
				running = f.cleaner.Status(partition).RunningPass
				return running != nil && time.Since(time.UnixMilli(int64(running.Began*1000))) >=
					10*time.Second
			})
			took := time.Since(time.UnixMilli(int64(running.Began * 1000))).Seconds()
			switch {
			case running.BytesPerSecond == nil:
				t.Fatalf("got %+v", running)
			case *running.BytesPerSecond > 250_000 || *running.BytesPerSecond < 50_000:
				t.Errorf("got %.0f bytes per second with a limit of 200,000", *running.BytesPerSecond)
			case running.ThrottledSeconds > took || running.ThrottledSeconds < took/10:
				t.Errorf("got %.1f s throttled of %.1f", running.ThrottledSeconds, took)
			}
			all, _ := f.cleaner.Passes(passlog.Filter{Partition: -1, Limit: 1, Running: true})
			if len(all) != 1 || all[0].BytesPerSecond == nil {
				t.Errorf("the list of passes has %+v", all)
			}
			f.until(10*time.Minute, "the end of the pass",
				func() bool { return f.cleaner.Status(partition).RunningPass == nil })
			last := f.ended()[0]
			if last.BytesPerSecond != nil ||
				last.ThrottledSeconds < running.ThrottledSeconds {
				t.Errorf("the history has %+v after %+v", last.Pass, running)
			}
			synctest.Wait()
		})
}
