package cleaner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// slowPass returns the settings of a compacted log, modified by change, with segments so large that
// a pass takes hours at the I/O rate of slowBudget.
func slowPass(change func(*topicconfig.Settings)) topicconfig.Settings {
	return compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes = 100_000
		if change != nil {
			change(s)
		}
	})
}

// aborts lists the events that abort a pass.
var aborts = map[string]struct {
	do       func(t *testing.T, f *fixture)
	survives bool // true if the event does not delete the log, which is compacted afterwards
	// runningOnly is set if the event aborts only a running pass, and not a pass that waits for its
	// first worker slot. A waiting pass has not read the log's state yet
	// (logstore.Compaction.Pass), and its settings and memory still apply.
	runningOnly bool
}{
	"truncation": {do: func(t *testing.T, f *fixture) {
		if err := f.log.TruncateTo(f.log.LogEnd() - 100); err != nil {
			t.Error(err)
		}
	}, survives: true, runningOnly: true},
	"deletion": {do: func(t *testing.T, f *fixture) {
		if err := f.store.Release(partition, false); err != nil {
			t.Error(err)
		}
	}},
	"policy": {do: func(_ *testing.T, f *fixture) { f.log.Configure(settings(nil), true) },
		survives: true},
	"settings": {do: func(_ *testing.T,
		f *fixture) {
		f.log.Configure(slowPass(shorterRetention), true)
	}, survives: true},
	"no workers": {do: func(_ *testing.T, f *fixture) {
		f.cleaner.Configure(Options{Workers: -1, Logger: quiet()})
	}, survives: true},
	"little memory": {do: func(_ *testing.T, f *fixture) {
		f.cleaner.Configure(Options{MemoryBytes: 100, IOBytesRate: slowBudget.IOBytesRate,
			Logger: quiet()})
	}, survives: true},
	"shutdown": {do: func(_ *testing.T, f *fixture) { f.cleaner.Close() }},
}

func shorterRetention(s *topicconfig.Settings) { s.TombstoneRetention = time.Minute }

func TestI35I36I37PassIsAbortedWithinASecondInEveryPhase(t *testing.T) {
	for name, abort := range aborts {
		for _, phase := range []string{"queued", "indexing", "deduplicating", "rewriting"} {
			t.Run(name+" while "+phase, func(t *testing.T) {
				inBubble(t, slowPass(nil), Options{Logger: quiet()},
					func(t *testing.T, f *fixture) {
						f.holdInPhase(phase)
						abort.do(t, f)
						wait(time.Second)
						if abort.runningOnly && phase == "queued" {
							f.checkQueued()
						} else {
							f.checkAborted()
						}
						if !abort.survives {
							return
						}
						if phase == "queued" {
							f.cleaner.slots.release(1) // was acquired by holdQueued
						}
						f.log.Configure(
							slowPass(func(s *topicconfig.Settings) { s.MinDirtyPercent = 1 }),
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

// holdInPhase starts a pass and makes it wait for hours in the given phase. In phase "queued" the
// pass waits for its first worker slot, in any other phase for the I/O budget.
func (f *fixture) holdInPhase(phase string) {
	f.t.Helper()
	if phase == "queued" {
		f.holdQueued()
		return
	}
	f.cleaner.Configure(Options{Workers: -1, Logger: quiet()})
	f.fillWith(f.log, 6_000, 1_000)
	wait(2 * time.Second)
	if phase != "indexing" {
		for _, log := range f.store.Logs() {
			for log.Compaction().BuildSidecar(f.t.Context(), time.Now(), compaction.BuildOptions{}) {
			}
		}
	}
	opts := Options{IOBytesRate: map[string]int64{"indexing": 2, "deduplicating": 2000,
		"rewriting": 4000}[phase]}
	opts.Logger = quiet()
	f.cleaner.Configure(opts)
	f.until(time.Hour, "pass in phase "+phase,
		func() bool { return f.cleaner.Status(partition).Phase == phase })
	if phase != "indexing" {
		// Lower the rate to 1 byte per second. A new rate begins with a full bucket of burstBytesMin
		// bytes. In phase "indexing" these bytes would suffice to complete the sidecar that is being
		// built. The pass, and not the background goroutine, would then build the next sidecar.
		f.cleaner.Configure(Options{IOBytesRate: 1, Logger: quiet()})
	}
	wait(100 * time.Millisecond)
	if now := f.cleaner.Status(partition).Phase; now != phase {
		f.t.Fatalf("the phase is %s, want %s", now, phase)
	}
}

// holdQueued acquires the only worker slot, which makes the log's pass wait for its first worker
// slot.
func (f *fixture) holdQueued() {
	f.t.Helper()
	f.cleaner.Configure(Options{Workers: 1, Logger: quiet()})
	if !f.cleaner.slots.tryAcquire() {
		f.t.Fatal("the slot is not free, though no log is dirty")
	}
	f.fillWith(f.log, 6_000, 1_000)
	f.until(time.Hour, "queued pass",
		func() bool { return f.cleaner.Status(partition).Phase == "queued" && f.passes() == 1 })
	f.checkQueued()
}

func (f *fixture) passes() int {
	f.cleaner.mu.Lock()
	defer f.cleaner.mu.Unlock()
	return f.cleaner.mu.passes
}

// aborted returns the number of passes that were aborted. The caller holds Cleaner.mu.
func (s *logState) aborted() int64 {
	return s.counters.runs[slices.Index(runResults[:], runAborted)]
}

// checkQueued checks that the log's pass still waits for its first worker slot and has read
// nothing.
func (f *fixture) checkQueued() {
	f.t.Helper()
	f.cleaner.mu.Lock()
	state := f.cleaner.mu.logs[partition]
	waits := state != nil && state.log == f.log.Compaction() && state.running() && state.waiting &&
		state.aborted() == 0
	f.cleaner.mu.Unlock()
	if status := f.cleaner.Status(partition); !waits || status.Phase != "queued" ||
		status.ReadBytes != 0 {
		f.t.Errorf("the pass does not wait for its first slot: %+v", status)
	}
}

// checkAborted checks that the pass has been aborted and has left no temporary files. Another pass
// may have started meanwhile.
func (f *fixture) checkAborted() {
	f.t.Helper()
	f.cleaner.mu.Lock()
	state := f.cleaner.mu.logs[partition]
	runs := state != nil && state.log == f.log.Compaction() && state.aborted() != 1
	f.cleaner.mu.Unlock()
	if runs {
		f.t.Errorf("the pass still runs: %+v", f.cleaner.Status(partition))
	}
	entries, err := f.fsys.ReadDir(logDir)
	if err != nil {
		return // the log was deleted
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), cleanedSuffix) ||
			strings.Contains(entry.Name(), swapSuffix) {
			f.t.Errorf("temporary file %s", entry.Name())
		}
	}
}
