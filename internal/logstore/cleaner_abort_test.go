package logstore

import (
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// abortable are settings of a log whose pass takes hours at the rate of slow.
func abortable(change func(*topicconfig.Settings)) topicconfig.Settings {
	return compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes = 100_000
		if change != nil {
			change(s)
		}
	})
}

// aborts are what ends a pass, and what becomes of the log.
var aborts = map[string]struct {
	do       func(t *testing.T, f *cleanerFixture)
	survives bool // the log does, and is cleaned afterwards
}{
	"truncation": {func(t *testing.T, f *cleanerFixture) {
		if err := f.log.TruncateTo(f.log.LogEnd() - 100); err != nil {
			t.Error(err)
		}
	}, true},
	"deletion": {func(t *testing.T, f *cleanerFixture) {
		if err := f.store.Release(partition, false); err != nil {
			t.Error(err)
		}
	}, false},
	"policy":   {func(_ *testing.T, f *cleanerFixture) { f.log.Configure(settings(nil), true) }, true},
	"settings": {func(_ *testing.T, f *cleanerFixture) { f.log.Configure(abortable(tighter), true) }, true},
	"no workers": {func(_ *testing.T, f *cleanerFixture) {
		f.cleaner.Configure(CleanerOptions{Workers: -1, Logger: quiet()})
	}, true},
	"little memory": {func(_ *testing.T, f *cleanerFixture) {
		f.cleaner.Configure(CleanerOptions{MemoryBytes: 100, IOBytesRate: slow.IOBytesRate, Logger: quiet()})
	}, true},
	"shutdown": {func(_ *testing.T, f *cleanerFixture) { f.cleaner.Close() }, false},
}

func tighter(s *topicconfig.Settings) { s.TombstoneRetention = time.Minute }

func TestI35I36I37PassesAreAbortedWithinASecondAtEveryPhase(t *testing.T) {
	for name, abort := range aborts {
		for _, phase := range []string{"queued", "indexing", "deduplicating", "rewriting"} {
			t.Run(name+" while "+phase, func(t *testing.T) {
				inBubble(t, abortable(nil), CleanerOptions{Logger: quiet()}, func(t *testing.T, f *cleanerFixture) {
					f.reach(phase)
					abort.do(t, f)
					wait(time.Second)
					// A pass that waits for its first turn has not looked at the log yet, and will see it as it is by then.
					status := f.cleaner.Status(partition)
					if unseen := name == "truncation" && phase == "queued" && status.Phase == phase && status.ReadBytes == 0; !unseen {
						f.wantAborted()
					}
					if !abort.survives {
						return
					}
					f.log.Configure(abortable(func(s *topicconfig.Settings) { s.MinDirtyPercent = 1 }), true)
					f.cleaner.Configure(CleanerOptions{Logger: quiet()})
					f.until(time.Minute, "the log is clean", func() bool {
						status := f.cleaner.Status(partition)
						return status != nil && status.Runs[runSuccess] > 0 && status.DirtyBytes == 0
					})
					if n := len(readKeys(t, f.log, 0)); n < 900 || n > 2_000 {
						t.Errorf("%d records are left of 1000 keys", n)
					}
				})
			})
		}
	}
}

// reach has a pass wait in a phase for the I/O budget, for hours.
func (f *cleanerFixture) reach(phase string) {
	f.t.Helper()
	f.cleaner.Configure(CleanerOptions{Workers: -1, Logger: quiet()})
	if phase == "queued" { // behind another log, which holds the only worker
		other := f.another(1, abortable(nil))
		f.fillWith(other, 6_000, 1_000)
	}
	f.fillWith(f.log, 6_000, 1_000)
	wait(2 * time.Second)
	if phase != "indexing" {
		for _, log := range f.store.Logs() {
			for log.tendSidecars(f.t.Context(), time.Now(), sidecarOptions{}) {
			}
		}
	}
	opts := CleanerOptions{IOBytesRate: map[string]int64{"queued": 2, "indexing": 2, "deduplicating": 2000, "rewriting": 4000}[phase]}
	opts.Logger = quiet()
	f.cleaner.Configure(opts)
	if phase == "queued" {
		f.until(time.Hour, "a pass waits", func() bool {
			f.cleaner.mu.Lock()
			defer f.cleaner.mu.Unlock()
			return f.cleaner.mu.fresh == 1 && f.cleaner.mu.passes == 2
		})
		return
	}
	f.until(time.Hour, "the phase", func() bool { return f.cleaner.Status(partition).Phase == phase })
	f.cleaner.Configure(CleanerOptions{IOBytesRate: 1, Logger: quiet()})
	wait(100 * time.Millisecond)
	if now := f.cleaner.Status(partition).Phase; now != phase {
		f.t.Fatalf("the pass is %s, want %s", now, phase)
	}
}

// wantAborted checks that the pass has ended, and that nothing is left of what it has made. Another may have begun by then.
func (f *cleanerFixture) wantAborted() {
	f.t.Helper()
	f.cleaner.mu.Lock()
	state := f.cleaner.mu.logs[partition]
	runs := state != nil && state.log == f.log && state.counters.runs[runAborted] != 1
	f.cleaner.mu.Unlock()
	if runs {
		f.t.Errorf("the pass runs still: %+v", f.cleaner.Status(partition))
	}
	entries, err := f.fsys.ReadDir(f.log.dir)
	if err != nil {
		return // the directory is gone
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), cleanedSuffix) || strings.Contains(entry.Name(), swapSuffix) {
			f.t.Errorf("%s is left over", entry.Name())
		}
	}
}
