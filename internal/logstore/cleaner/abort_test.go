package cleaner

import (
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
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
	// begun tells that it ends only a pass that had its first turn: one that waits for it has not
	// looked at the log, holds nothing of it, and will see it as it is by then (Cleaner.cleanOnce).
	// What it was begun for holds still: settings and memory.
	begun bool
}{
	"truncation": {do: func(t *testing.T, f *cleanerFixture) {
		if err := f.log.TruncateTo(f.log.LogEnd() - 100); err != nil {
			t.Error(err)
		}
	}, survives: true, begun: true},
	"deletion": {do: func(t *testing.T, f *cleanerFixture) {
		if err := f.store.Release(partition, false); err != nil {
			t.Error(err)
		}
	}},
	"policy": {do: func(_ *testing.T, f *cleanerFixture) { f.log.Configure(settings(nil), true) },
		survives: true},
	"settings": {do: func(_ *testing.T,
		f *cleanerFixture) {
		f.log.Configure(abortable(tighter), true)
	}, survives: true},
	"no workers": {do: func(_ *testing.T, f *cleanerFixture) {
		f.cleaner.Configure(Options{Workers: -1, Logger: quiet()})
	}, survives: true},
	"little memory": {do: func(_ *testing.T, f *cleanerFixture) {
		f.cleaner.Configure(Options{MemoryBytes: 100, IOBytesRate: slow.IOBytesRate,
			Logger: quiet()})
	}, survives: true},
	"shutdown": {do: func(_ *testing.T, f *cleanerFixture) { f.cleaner.Close() }},
}

func tighter(s *topicconfig.Settings) { s.TombstoneRetention = time.Minute }

func TestI35I36I37PassesAreAbortedWithinASecondAtEveryPhase(t *testing.T) {
	for name, abort := range aborts {
		for _, phase := range []string{"queued", "indexing", "deduplicating", "rewriting"} {
			t.Run(name+" while "+phase, func(t *testing.T) {
				inBubble(t, abortable(nil), Options{Logger: quiet()},
					func(t *testing.T, f *cleanerFixture) {
						f.reach(phase)
						abort.do(t, f)
						wait(time.Second)
						if abort.begun && phase == "queued" {
							f.wantQueued()
						} else {
							f.wantAborted()
						}
						if !abort.survives {
							return
						}
						if phase == "queued" {
							f.cleaner.slots.release(1) // the one that reach took
						}
						f.log.Configure(
							abortable(func(s *topicconfig.Settings) { s.MinDirtyPercent = 1 }),
							true,
						)
						f.cleaner.Configure(Options{Logger: quiet()})
						f.until(time.Minute, "the log is clean", func() bool {
							status := f.cleaner.Status(partition)
							return status != nil && status.Runs[runSuccess] > 0 &&
								status.DirtyBytes == 0
						})
						if n := len(readKeys(t, f.log, 0)); n < 900 || n > 2_000 {
							t.Errorf("%d records are left of 1000 keys", n)
						}
					})
			})
		}
	}
}

// reach has a pass wait in a phase, for hours: for its first turn, or for the I/O budget.
func (f *cleanerFixture) reach(phase string) {
	f.t.Helper()
	if phase == "queued" {
		f.waitForTurn()
		return
	}
	f.cleaner.Configure(Options{Workers: -1, Logger: quiet()})
	f.fillWith(f.log, 6_000, 1_000)
	wait(2 * time.Second)
	if phase != "indexing" {
		for _, log := range f.store.Logs() {
			for log.Compaction().BuildSidecar(f.t.Context(), time.Now(), logstore.SidecarBuild{}) {
			}
		}
	}
	opts := Options{IOBytesRate: map[string]int64{"indexing": 2, "deduplicating": 2000,
		"rewriting": 4000}[phase]}
	opts.Logger = quiet()
	f.cleaner.Configure(opts)
	f.until(time.Hour, "the phase",
		func() bool { return f.cleaner.Status(partition).Phase == phase })
	f.cleaner.Configure(Options{IOBytesRate: 1, Logger: quiet()})
	wait(100 * time.Millisecond)
	if now := f.cleaner.Status(partition).Phase; now != phase {
		f.t.Fatalf("the pass is %s, want %s", now, phase)
	}
}

// waitForTurn has the log's pass wait for its first turn. A pass that waits for the disk has given
// its worker back by then: so none keeps another waiting for long, and the worker is taken away
// here.
func (f *cleanerFixture) waitForTurn() {
	f.t.Helper()
	f.cleaner.Configure(Options{Workers: 1, Logger: quiet()})
	if !f.cleaner.slots.tryAcquire() {
		f.t.Fatal("the worker is not free, and no log was dirty")
	}
	f.fillWith(f.log, 6_000, 1_000)
	f.until(time.Hour, "a pass",
		func() bool { return f.cleaner.Status(partition).Phase == "queued" && f.passes() == 1 })
	f.wantQueued()
}

func (f *cleanerFixture) passes() int {
	f.cleaner.mu.Lock()
	defer f.cleaner.mu.Unlock()
	return f.cleaner.mu.passes
}

// wantQueued checks that the log's first pass waits for its first turn, and has read nothing.
func (f *cleanerFixture) wantQueued() {
	f.t.Helper()
	f.cleaner.mu.Lock()
	state := f.cleaner.mu.logs[partition]
	waits := state != nil && state.log == f.log.Compaction() && state.running() && state.waiting &&
		state.counters.runs[runAborted] == 0
	f.cleaner.mu.Unlock()
	if status := f.cleaner.Status(partition); !waits || status.Phase != "queued" ||
		status.ReadBytes != 0 {
		f.t.Errorf("the pass does not wait for its first turn: %+v", status)
	}
}

// wantAborted checks that the pass has ended, and that nothing is left of what it has made. Another
// may have begun by then.
func (f *cleanerFixture) wantAborted() {
	f.t.Helper()
	f.cleaner.mu.Lock()
	state := f.cleaner.mu.logs[partition]
	runs := state != nil && state.log == f.log.Compaction() && state.counters.runs[runAborted] != 1
	f.cleaner.mu.Unlock()
	if runs {
		f.t.Errorf("the pass runs still: %+v", f.cleaner.Status(partition))
	}
	entries, err := f.fsys.ReadDir(logDir)
	if err != nil {
		return // the directory is gone
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), cleanedSuffix) ||
			strings.Contains(entry.Name(), swapSuffix) {
			f.t.Errorf("%s is left over", entry.Name())
		}
	}
}
