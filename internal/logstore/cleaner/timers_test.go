package cleaner

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestI5IdleLogIsRolledAndCompactedByMaxLag checks that a log to which nothing is appended after
// its first records is rolled and compacted within maxLag (KIP-354). Kafka would never roll the
// log's only segment, and would therefore ignore maxLag.
func TestI5IdleLogIsRolledAndCompactedByMaxLag(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent, s.MaxLag = 1<<20, 100, time.Hour
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(40, 5)
		f.put(keys...)
		wait(59 * time.Minute)
		f.wantReason(reasonActiveSegmentOnly)
		wait(2 * time.Minute)
		if n := f.latest(latest); n != 5 {
			t.Errorf("%d records are left of 5 keys past maxLag", n)
		}
		status := f.cleaner.Status(partition)
		if status.OverdueSeconds != 0 || status.Runs[runSuccess] != 1 {
			t.Errorf("status %+v", status)
		}
	})
}

func TestIdleLogIsCompactedAfterMinLag(t *testing.T) { // KIP-58
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinLag, s.SegmentAge = 1<<20, time.Hour, 10*time.Minute
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(40, 5)
		f.put(keys...)
		wait(59 * time.Minute)
		f.wantReason(reasonMinLagNotReached)
		wait(2 * time.Minute)
		if n := f.latest(latest); n != 5 {
			t.Errorf("%d records are left of 5 keys past minLag", n)
		}
	})
}

// TestF7RemainingGarbageIsRemovedByMaxLag checks garbage that a pass has left to save I/O. The
// garbage is removed once maxLag has passed since the oldest garbage was superseded, even if the
// log has no dirty section (F7).
func TestF7RemainingGarbageIsRemovedByMaxLag(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent, s.MaxGarbagePercent = 20_000, 0, 50
		s.MaxLag, s.TombstoneRetention = 2*time.Hour, 10*time.Minute
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 1_000, 1_000)
		f.fillWith(f.log, 300, 300)
		wait(time.Hour)
		left := f.cleaner.Status(partition)
		if left.ReclaimableBytes == nil || *left.ReclaimableBytes == 0 {
			t.Fatalf("status %+v, want remaining garbage", left)
		}
		if left.DirtyBytes != 0 || left.NextDue == nil {
			t.Fatalf("status %+v, want no dirty bytes and a time of the next pass", left)
		}
		wait(65 * time.Minute) // wait until after maxLag, at which the active segment is also rolled
		status := f.cleaner.Status(partition)
		if n := len(readKeys(t, f.log, 0)); n != 1_000 || status.OverdueSeconds != 0 {
			t.Errorf("%d records are left of 1000 keys, status %+v", n, status)
		}
	})
}

func TestOverdueDuration(t *testing.T) {
	s := topicconfig.Settings{MaxLag: time.Hour}
	v := compaction.Sections{CleanBytes: 10, DirtyBytes: 10, OldestDirty: epoch0}
	for name, c := range map[string]struct {
		v      compaction.Sections
		oldest time.Time
		after  time.Duration
		want   time.Duration
	}{
		"not yet":         {v, time.Time{}, time.Hour, 0},
		"dirty":           {v, time.Time{}, time.Hour + 5, 5},
		"older garbage":   {v, epoch0.Add(-time.Minute), time.Hour, time.Minute},
		"younger garbage": {v, epoch0.Add(time.Minute), time.Hour + 7, 7},
		"nothing dirty": {compaction.Sections{CleanBytes: 10}, time.Time{}, 99 * time.Hour,
			0},
		"nothing dirty, garbage": {compaction.Sections{CleanBytes: 10}, epoch0, 2 * time.Hour,
			time.Hour},
	} {
		if got := overdueBy(c.v, &s, c.oldest, epoch0.Add(c.after)); got != c.want {
			t.Errorf("%s: overdue by %s, want %s", name, got, c.want)
		}
	}
	s.MaxLag = topicconfig.Unlimited
	if got := overdueBy(v, &s, epoch0, epoch0.Add(1000*time.Hour)); got != 0 {
		t.Errorf("overdue by %s without maxLag", got)
	}
}

// TestI5FutureTimestampsDoNotDelayMaxLag checks that a producer whose clock is ahead does not delay
// maxLag: the modification time of the data file is used instead of its timestamps.
func TestI5FutureTimestampsDoNotDelayMaxLag(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.MinDirtyPercent, s.MaxLag = 100, time.Hour
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		for range 40 {
			batch := storetest.Batch{Keys: []string{"k"}, Value: "a value of some thirty bytes",
				Timestamp: time.Now().Add(50 * time.Minute)}
			if _, err := f.log.Append(batch.Bytes(t), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		f.log.AdvanceHighWatermark(f.log.LogEnd())
		wait(61 * time.Minute)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 {
			t.Errorf("runs %v", runs)
		}
	})
}

func TestOverdueIsReportedWithoutWorkers(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.MinDirtyPercent, s.MaxLag = 100, time.Hour
	})
	inBubble(t, config, Options{Workers: -1}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(40, 5)
		f.put(keys...)
		wait(90 * time.Minute)
		status := f.cleaner.Status(partition)
		if late := status.OverdueSeconds; late < 29*60 || late > 31*60 {
			t.Errorf("overdue by %g seconds, want half an hour", late)
		}
		if due := status.NextDue; due == nil || *due > float64(time.Now().Unix()) {
			t.Errorf("next due %v", due)
		}
		f.cleaner.Configure(Options{Logger: quiet()})
		wait(5 * time.Second)
		if late := f.cleaner.Status(partition).OverdueSeconds; late != 0 {
			t.Errorf("overdue by %g seconds after the pass", late)
		}
	})
}

func TestX1TombstonesStayUntilReplicatedProgress(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.put("gone", "later")
		// The tombstone of "gone" is at offset 2, below the replicated progress. The tombstone of
		// "later" is at offset 3.
		f.log.Compaction().Progress.SetReplicasTombstoneClean(3)
		f.delete("gone")
		f.delete("later")
		keys, _ := updatesOf(20, 3)
		f.put(keys...)
		wait(2 * time.Hour)
		if f.has("gone") || !f.has("later") {
			t.Errorf("after the retention: %v; the replicated progress is 3",
				readKeys(t, f.log, 0))
		}
		wait(10 * time.Hour)
		if runs := f.cleaner.Status(partition).Runs; !f.has("later") || runs[runSuccess]+
			runs[runNothingToDo] > 8 {
			t.Errorf("runs %v, %v", runs, readKeys(t, f.log, 0))
		}
		progress := &f.log.Compaction().Progress
		progress.SetReplicasTombstoneClean(progress.TombstoneClean())
		wait(2 * time.Hour)
		if f.has("later") {
			t.Error("the tombstone is not removed, although the replicated progress is above it")
		}
	})
}
