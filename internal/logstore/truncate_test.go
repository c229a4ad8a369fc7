package logstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestTruncateToAnyOffset checks that after a truncation to any offset and a clean or unclean
// restart, the log contains the records below the new end, and appends continue there.
func TestTruncateToAnyOffset(t *testing.T) {
	for offset := range int64(53) {
		for _, clean := range []bool{false, true} {
			mem := vfs.NewMem()
			store, log := swapLog(t, mem)
			if err := log.TruncateTo(offset); err != nil {
				t.Fatal(err)
			}
			want := min(offset, 50)
			check := func(stage string) {
				t.Helper()
				if log.LogEnd() != want || log.HighWatermark() != want ||
					log.LastStable() != want || log.LogStart() != 0 {
					t.Fatalf("truncated to %d, %s: [%d, %d), high watermark %d", offset, stage,
						log.LogStart(), log.LogEnd(), log.HighWatermark())
				}
				if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, want)) {
					t.Fatalf("truncated to %d, %s: read %v", offset, stage, got)
				}
			}
			check("done")
			if clean {
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				store = openStore(t, mem)
			} else {
				mem = mem.CrashClone()
				store = openStore(t, mem)
			}
			log = createLog(t, store, settings(nil))
			check("restarted")
			fill(t, log, 30)
			want += 30
			check("filled")
			if got := filesWith(t, mem, log.dir, swap.DeletedSuffix, swap.SwapSuffix,
				swap.CleanedSuffix); len(got) > 0 {
				t.Errorf("truncated to %d: leftovers %v", offset, got)
			}
		}
	}
}

// TestTruncateWithinBatch checks that a truncation to an offset within a batch removes the whole
// batch.
func TestTruncateWithinBatch(t *testing.T) {
	_, _, log := newLogForTest(t)
	for range 4 {
		appendBatch(t, log, keyed(t, "a", "b", "c"))
	}
	if err := log.TruncateTo(7); err != nil {
		t.Fatal(err)
	}
	if log.LogEnd() != 6 || log.HighWatermark() != 6 {
		t.Errorf("log end %d, high watermark %d", log.LogEnd(), log.HighWatermark())
	}
	// The log start may also be within a batch. If a truncation removes this batch, the log is
	// empty.
	if err := errors.Join(log.DeleteBefore(4), log.TruncateTo(5)); err != nil {
		t.Fatal(err)
	}
	if s := log.Stats(); s.LogStart != 3 || s.LogEnd != 3 {
		t.Errorf("%+v", s)
	}
}

func TestTruncateRestoresEpochsProducersAndTransactions(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	if err := log.Lead(1); err != nil {
		t.Fatal(err)
	}
	inTxn(t, log, 7, 0, "a") // 0
	inTxn(t, log, 8, 0, "b") // 1
	fill(t, log, 18)
	endTxn(t, log, 8, true) // 20
	if err := log.Lead(4); err != nil {
		t.Fatal(err)
	}
	inTxn(t, log, 7, 1, "c") // 21
	endTxn(t, log, 7, false) // 22
	fill(t, log, 30)
	store.tick(epoch0, false)
	if err := log.TruncateTo(20); err != nil {
		t.Fatal(err)
	}
	for stage := range 2 {
		if log.LeaderEpoch() != 1 || log.LastStable() != 0 || !log.Producers().HasOpenTransaction(7, 0) ||
			!log.Producers().HasOpenTransaction(8, 0) {
			t.Errorf("stage %d: epoch %d, last stable offset %d", stage, log.LeaderEpoch(),
				log.LastStable())
		}
		if found, end := log.EndOffsetFor(4); found != -1 || end != -1 {
			t.Errorf("stage %d: epoch 4 is %d until %d", stage, found, end)
		}
		mem = mem.CrashClone()
		log = createLog(t, openStore(t, mem), settings(nil))
		log.AdvanceHighWatermark(20)
	}
	// The truncation has removed the batch with this sequence number, so a batch with the same
	// number can be appended again. The transaction of producer 8 is now aborted, and the
	// transaction of producer 7 committed.
	if appended := inTxn(t, log, 7, 1, "d"); appended.Duplicate || appended.BaseOffset != 20 {
		t.Errorf("%+v", appended)
	}
	endTxn(t, log, 8, false)
	endTxn(t, log, 7, true)
	want := append([]string{"0=a"}, append(expectKeys(2, 20), "20=d")...)
	if got := committedKeys(t, log, 0); !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestStartAt(t *testing.T) {
	for _, offset := range []int64{0, 10, 25, 50, 70, 1 << 40} {
		mem := vfs.NewMem()
		_, log := swapLog(t, mem)
		if err := errors.Join(log.Lead(3), log.DeleteBefore(15), log.StartAt(offset)); err != nil {
			t.Fatal(err)
		}
		for stage := range 2 {
			if s := log.Stats(); s.LogStart != offset || s.LogEnd != offset ||
				s.HighWatermark != offset || s.LastStable != offset {
				t.Fatalf("start at %d, stage %d: %+v", offset, stage, s)
			}
			if log.LeaderEpoch() != -1 || len(bases(log)) != 1 {
				t.Errorf("start at %d: epoch %d, segments %v", offset, log.LeaderEpoch(),
					bases(log))
			}
			mem = mem.CrashClone()
			log = createLog(t, openStore(t, mem), settings(nil))
		}
		fill(t, log, 3)
		if got := readKeys(t, log, offset); !slices.Equal(got, expectKeys(offset, offset+3)) {
			t.Errorf("start at %d: read %v", offset, got)
		}
	}
}

// TestTruncateDoesNotDisturbReaders checks that a reader that received a slice before a truncation
// still reads the slice's bytes, because the truncated segment's file stays open for it.
func TestTruncateDoesNotDisturbReaders(t *testing.T) {
	for _, held := range []bool{false, true} {
		_, log := swapLog(t, vfs.NewMem())
		before, err := log.Read(40, 50, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		want := batchesOf(t, before)
		if !held {
			before.Release()
		}
		if err := log.TruncateTo(43); err != nil {
			t.Fatal(err)
		}
		fill(t, log, 10)
		if held {
			got := batchesOf(t, before)
			if len(got) != 10 || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%d batches of a held slice", len(got))
			}
			before.Release()
		}
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 53)) {
			t.Errorf("held %t: read %v", held, got)
		}
	}
}

// TestCrashAtEveryStepOfTruncation cuts the power at any step of a truncation. The log then has all
// its records up to some offset at or above the new end. If the truncation has returned without an
// error, the log ends at the new end.
func TestCrashAtEveryStepOfTruncation(t *testing.T) {
	for _, held := range []bool{false, true} {
		for step, over := 0, false; !over; step++ {
			// In a synctest bubble, waiting for the reader of the segment takes no time.
			synctest.Test(t, func(t *testing.T) { over = crashWhileTruncating(t, held, step) })
			if over && step < 15 {
				t.Errorf("the truncation ended after %d steps, want at least 15", step)
			}
		}
	}
}

// crashWhileTruncating truncates a log on a disk whose operations fail from the given step on, and
// checks the log after a crash. It reports whether the truncation ended before that step. If held
// is set, a reader uses the truncated segment.
func crashWhileTruncating(t *testing.T, held bool, step int) (over bool) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	_, log := swapLog(t, fault)
	if held { // makes the truncation copy the segment, because a reader uses it
		slice, err := log.Read(20, 30, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		defer slice.Release()
	}
	fault.Inject(vfs.Rule{Skip: step})
	err := log.TruncateTo(23)
	if err != nil && !errors.Is(err, ErrStorage) {
		t.Fatalf("step %d: %v", step, err)
	}
	for seed := range uint64(6) {
		stage := fmt.Sprintf("held %t, step %d, seed %d", held, step, seed)
		again := createLog(t, openStore(t, crash(mem, seed)), settings(nil))
		end := again.LogEnd()
		if end < 23 || end > 50 || err == nil && end != 23 {
			t.Fatalf("%s: %v, and the log ends at %d", stage, err, end)
		}
		if got := readKeys(t, again, 0); !slices.Equal(got, expectKeys(0, end)) {
			t.Fatalf("%s: read %v", stage, got)
		}
	}
	return err == nil
}

// TestOrderOfTruncation checks that a truncation executes its operations in the order that
// docs/internals/format/truncate.md describes.
func TestOrderOfTruncation(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			trace := vfs.NewTrace(vfs.NewMem(), dataDir)
			_, log := swapLog(t, trace)
			if held {
				slice, err := log.Read(20, 30, 1<<20, true)
				if err != nil {
					t.Fatal(err)
				}
				defer slice.Release()
			}
			trace.Take()
			if err := log.TruncateTo(23); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("truncate-held-%t.trace", held),
				sizes.ReplaceAllString(trace.Take(), "0+<n>"))
		})
	}
}

// TestRemovedRecordsNeverFollowNewOnes removes records by a truncation, and appends new records of
// the same size. After a crash, no removed record may follow the new records, although its offset
// would match.
func TestRemovedRecordsNeverFollowNewOnes(t *testing.T) {
	for seed := range seed.Sequence(t, 60) {
		mem := vfs.NewMem()
		_, log := swapLog(t, mem)
		if err := log.TruncateTo(43); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			appendBatch(t, log, keyed(t, fmt.Sprintf("n%d", log.LogEnd())))
		}
		again := createLog(t, openStore(t, mem.CrashClonePartly(seed)), settings(nil))
		want := append(expectKeys(0, 43), "43=n43", "44=n44")
		if got := readKeys(t, again, 0); len(got) < 43 || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("seed %d: read %v", seed, got)
		}
	}
}

// TestI35TruncateEndsPasses checks that a truncation lowers the first dirty offset, in memory and
// on disk. A pass that began before the truncation must neither replace segments nor store its
// result.
func TestI35TruncateEndsPasses(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) { s.Compact, s.Delete = true, false }))
	fill(t, log, 50)
	store.tick(epoch0, false)
	if err := log.compaction.Progress.SetFirstDirty(40); err != nil {
		t.Fatal(err)
	}
	view := log.compaction.View(epoch0)
	defer view.Release()
	cleaned, err := cleanedOf(t, log, sourcesOf(log, 0, 1), []int64{3})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.TruncateTo(25); err != nil {
		t.Fatal(err)
	}
	if got := log.compaction.Progress.FirstDirty(); got != 20 {
		t.Errorf("first dirty offset %d", got)
	}
	if err := log.replaceIn(view.Truncations, sourcesOf(log, 0, 1), cleaned); !errors.Is(err,
		segmentlist.ErrChanged) {
		t.Errorf("an earlier pass replaced segments: %v", err)
	}
	if err := log.compaction.Progress.SetCleaned(progress.Basis{Truncations: view.Truncations},
		clean.Stats{CleanedTo: 40, NextPass: epoch0}); !errors.Is(err, segmentlist.ErrChanged) {
		t.Errorf("the result of an earlier pass was stored: %v", err)
	}
	if got := createLog(t, openStore(t, mem.CrashClone()),
		settings(nil)).compaction.Progress.FirstDirty(); got != 20 {
		t.Errorf("after a crash the first dirty offset is %d", got)
	}
}
