package logstore

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// compactLog returns swapLog's log with the cleanup policy compact. Its segments begin at 0, 10, 20
// and 30, and the active segment at 40.
func compactLog(t testing.TB, fsys vfs.FS, change func(*topicconfig.Settings)) (*Store, *Log) {
	t.Helper()
	store, log := swapLog(t, fsys)
	log.Configure(settings(func(s *topicconfig.Settings) {
		s.Delete, s.Compact = false, true
		if change != nil {
			change(s)
		}
	}), true)
	return store, log
}

func sizesOf(log *Log) []int64 {
	var all []int64
	for _, s := range sourcesOf(log, 0, len(bases(log))) {
		all = append(all, s.SizeBytes())
	}
	return all
}

func sum(sizes []int64) int64 {
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	return total
}

func TestI1SectionsEndBelowActiveSegment(t *testing.T) { // I1
	_, log := compactLog(t, vfs.NewMem(), nil)
	view := log.compaction.View(epoch0.Add(time.Hour))
	defer view.Release()
	sizes := sizesOf(log)
	if len(view.Segments) != 4 || view.Bound != 40 || view.FirstDirty != 0 {
		t.Errorf("%d segments, bound %d, first dirty %d; want 4, 40, 0", len(view.Segments),
			view.Bound, view.FirstDirty)
	}
	if want := sum(sizes[:4]); view.CleanBytes != 0 || view.DirtyBytes != want {
		t.Errorf("%d clean and %d dirty bytes, want 0 and %d", view.CleanBytes, view.DirtyBytes,
			want)
	}
	if want := map[string]int64{compaction.BlockedActive: sizes[4]}; !reflect.DeepEqual(view.Blocked,
		want) {
		t.Errorf("blocked %v, want %v", view.Blocked, want)
	}
	if !view.OldestDirty.Equal(epoch0) {
		t.Errorf("oldest dirty %v", view.OldestDirty)
	}
}

func TestI4DirtySectionBeginsWithASegment(t *testing.T) { // I4
	_, log := compactLog(t, vfs.NewMem(), nil)
	for _, test := range []struct{ firstDirty, clean int64 }{{20, 2}, {25, 2}, {29, 2}, {30, 3},
		{40, 4}} {
		if err := log.compaction.Progress.SetFirstDirty(test.firstDirty); err != nil {
			t.Fatal(err)
		}
		view := log.compaction.View(epoch0)
		sizes := sizesOf(log)
		if view.CleanBytes != sum(sizes[:test.clean]) ||
			view.DirtyBytes != sum(sizes[test.clean:4]) || view.FirstDirty != test.firstDirty {
			t.Errorf("first dirty %d: %+v", test.firstDirty, view)
		}
		if view.OldestDirty.IsZero() != (view.DirtyBytes == 0) {
			t.Errorf("first dirty %d: oldest dirty %v", test.firstDirty, view.OldestDirty)
		}
		view.Release()
	}
}

func TestI2BoundIsRoundedDownToASegment(t *testing.T) { // I2
	t.Run("the high watermark (KAFKA-13194)", func(t *testing.T) {
		_, log := compactLog(t, vfs.NewMem(), nil)
		log.offsets.Restore(log.LogStart(), 35, log.LogEnd(), &log.mu.producers)
		view := log.compaction.View(epoch0)
		defer view.Release()
		if view.Bound != 30 || view.Blocked[compaction.BlockedUnreplicated] != sizesOf(log)[3] {
			t.Errorf("%+v", view)
		}
	})
	t.Run("the end of synced data (ADR 0015)", func(t *testing.T) {
		store, log := compactLog(t, vfs.NewMem(), nil)
		fill(t, log, 10)
		view := log.compaction.View(epoch0)
		if view.Bound != 40 || len(view.Segments) != 4 {
			t.Errorf("%+v", view)
		}
		view.Release()
		store.tick(epoch0, false)
		if view = log.compaction.View(epoch0); view.Bound != 50 {
			t.Errorf("after the flush: %+v", view)
		}
		view.Release()
	})
	t.Run("minLag, which blocks dirty segments only", func(t *testing.T) {
		_, log := compactLog(t, vfs.NewMem(),
			func(s *topicconfig.Settings) { s.MinLag = time.Hour })
		view := log.compaction.View(epoch0.Add(time.Hour - time.Millisecond))
		if view.Bound != 0 || len(view.Segments) != 0 ||
			view.Blocked[compaction.BlockedMinLag] != sum(sizesOf(log)[:4]) {
			t.Errorf("%+v", view)
		}
		view.Release()
		if view = log.compaction.View(epoch0.Add(time.Hour)); view.Bound != 40 {
			t.Errorf("an hour later: %+v", view)
		}
		view.Release()
		if err := log.compaction.Progress.SetFirstDirty(20); err != nil {
			t.Fatal(err)
		}
		if view = log.compaction.View(epoch0); view.Bound != 20 || view.FirstDirty != 20 {
			t.Errorf("with two clean segments: %+v", view)
		}
		view.Release()
	})
}

// TestI3FirstDirtyOutsideTheLogIsReset checks that a first dirty offset outside the log is reset
// once, and the new offset is saved (I3, KAFKA-1641, KAFKA-6266, KAFKA-8724).
func TestI3FirstDirtyOutsideTheLogIsReset(t *testing.T) {
	mem := vfs.NewMem()
	store, log := compactLog(t, mem, nil)
	if err := log.compaction.Progress.SetFirstDirty(99); err != nil {
		t.Fatal(err)
	}
	view := log.compaction.View(epoch0)
	if view.FirstDirty != 0 || view.DirtyBytes == 0 {
		t.Errorf("above the end: %+v", view)
	}
	view.Release()
	if got := createLog(t, openStore(t, mem.CrashClone()),
		settings(nil)).checkpointState().FirstDirty; got != 0 {
		t.Errorf("%d after a crash", got)
	}

	if err := log.compaction.Progress.SetFirstDirty(10); err != nil {
		t.Fatal(err)
	}
	log.Configure(settings(func(s *topicconfig.Settings) {
		s.Compact, s.RetentionBytes = true, 1900
	}), true)
	store.tick(epoch0, true)
	if view = log.compaction.View(epoch0); view.FirstDirty != 30 || log.LogStart() != 30 ||
		log.checkpointState().FirstDirty != 30 {
		t.Errorf("below the start: %+v", view)
	}
	view.Release()
}

func TestI25ViewHasLastBatchesOfProducers(t *testing.T) { // I25
	_, log := compactLog(t, vfs.NewMem(), nil)
	appendBatch(t, log, storetest.Batch{Producer: 7, Keys: []string{"a", "b"}}.Bytes(t))
	if got, want := (compactionView{log}).producers(),
		(map[int64]clean.Producer{
			7: {LastOffset: 51, ExpiresAt: epoch0.Add(producer.Expiry)}}); !reflect.DeepEqual(got,
		want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestViewKeepsSegmentsReadable(t *testing.T) {
	store, log := compactLog(t, vfs.NewMem(), nil)
	view := log.compaction.View(epoch0)
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionBytes = 0 }), true)
	store.tick(epoch0, true)
	if got := bases(log); !slices.Equal(got, []int64{40}) {
		t.Fatalf("segments %v", got)
	}
	for _, s := range view.Segments {
		if _, err := s.HeaderAt(0); err != nil {
			t.Errorf("segment %d: %v", s.Base(), err)
		}
	}
	view.Release()
}

func TestMinLagOfFutureTimestampsBeginsAtTheAppend(t *testing.T) {
	_, log := compactLog(t, vfs.NewMem(), func(s *topicconfig.Settings) {
		s.MinLag = time.Hour
	})
	appended := time.Now()
	future := storetest.Batch{Keys: []string{"a"},
		Timestamp: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)}
	batch := record.Batch(future.Bytes(t))
	batch.SetBaseOffset(log.LogEnd())
	batch.SetLeaderEpoch(0)
	if err := log.AppendReplicated(batch, appended); err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
	base := log.list.Load().Active().Base()
	fill(t, log, 20)
	if err := log.disk.Flush(); err != nil {
		t.Fatal(err)
	}
	log.noteCheckpointed(log.LogEnd())
	for age, want := range map[time.Duration]bool{-time.Minute: true, time.Minute: false} {
		s, _ := log.Compaction().Sections(appended.Add(time.Hour + age))
		if blocked := s.Bound == base && s.Blocked[compaction.BlockedMinLag] > 0; blocked != want {
			t.Errorf("an hour and %s after the append: blocked by minLag %t, want %t; %+v", age,
				blocked, want, s)
		}
	}
}
