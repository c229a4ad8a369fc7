package cleaner

import (
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestCleanNowIncludesActiveSegment(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent, s.MaxGarbagePercent = 1<<20, 100, 90
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(100, 5)
		f.put(keys...)
		wait(time.Minute)
		f.wantReason(reasonActiveSegmentOnly)
		if _, err := f.cleaner.CleanNow(partition); err != nil {
			t.Fatal(err)
		}
		wait(5 * time.Second)
		if n := f.latest(latest); n != 5 {
			t.Errorf("%d records are left of 100 of 5 keys", n)
		}
		wait(time.Minute)
		status := f.cleaner.Status(partition)
		if status.Runs[runSuccess] != 1 || status.Runs[runNothingToDo] != 0 ||
			status.Reason != reasonUpToDate {
			t.Errorf("after one request: status %+v", status)
		}
	})
}

func TestCleanNowSkipsBlockedSegments(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 100 })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(50, 5)
		f.put(keys...)
		undecided := f.log.LogEnd() + 10
		for range 30 { // appended, but not replicated
			if _, err := f.log.Append(storetest.Batch{Keys: []string{"k0"}, Value: "not replicated",
				Timestamp: time.Now()}.Bytes(t), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		delete(latest, "k0")
		if _, err := f.cleaner.CleanNow(partition); err != nil {
			t.Fatal(err)
		}
		wait(requestWaitMax / 2)
		if status := f.cleaner.Status(partition); status.Runs[runSuccess] != 0 {
			t.Errorf("status %+v, want it to wait for the rolled segment", status)
		}
		wait(requestWaitMax)
		if status := f.cleaner.Status(partition); status.Runs[runSuccess] != 1 ||
			f.log.Compaction().Progress.FirstDirty() > undecided {
			t.Errorf("status %+v, clean to %d", status, f.log.Compaction().Progress.FirstDirty())
		}
		f.log.AdvanceHighWatermark(f.log.LogEnd())
		f.latest(latest)
	})
}

func TestCleanNowEndsQuarantine(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(50, 5)
		f.put("kept")
		f.put(keys...)
		for key := range latest {
			latest[key]++
		}
		f.flipFirstBit(f.log)
		wait(15 * time.Second)
		f.wantReason(reasonQuarantined)
		if next := f.cleaner.Status(partition).NextDue; next == nil ||
			*next < float64(time.Now().Unix()) {
			t.Errorf("the quarantine ends at %v", next)
		}
		f.flipFirstBit(f.log)
		if _, err := f.cleaner.CleanNow(partition); err != nil {
			t.Fatal(err)
		}
		wait(5 * time.Second)
		if status := f.cleaner.Status(partition); status.Runs[runSuccess] != 1 ||
			status.LastError != "" || status.LastErrorTime != nil {
			t.Errorf("status %+v", status)
		}
		f.latest(latest)
	})
}

func TestCleanNowErrors(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		f.another(1, settings(nil))
		f.put("a")
		if _, err := f.cleaner.CleanNow(logstore.PartitionID{Topic: "nobody"}); !errors.Is(err,
			ErrUnknownPartition) {
			t.Error(err)
		}
		if _, err := f.cleaner.CleanNow(logstore.PartitionID{Topic: "tickets",
			Index: 1}); !errors.Is(err,
			ErrNotCompacted) {
			t.Error(err)
		}
		f.cleaner.Configure(Options{Workers: -1, Logger: quiet()})
		if _, err := f.cleaner.CleanNow(partition); !errors.Is(err, ErrDisabled) {
			t.Error(err)
		}
	})
}

func TestCleanNowIsRepeatedAfterAbort(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent = 100_000, 100
	})
	inBubble(t, config, slowBudget, func(t *testing.T, f *fixture) {
		for range 2 {
			f.fillWith(f.log, 2_000, 500)
		}
		if _, err := f.cleaner.CleanNow(partition); err != nil {
			t.Fatal(err)
		}
		f.until(time.Minute, "requested pass",
			func() bool { return f.cleaner.Status(partition).Trigger == triggerRequested })
		f.until(time.Minute, "requested pass",
			func() bool { return f.cleaner.Status(partition).Reason == reasonCleaning })
		f.log.Configure(compacted(func(s *topicconfig.Settings) {
			s.SegmentBytes, s.MinDirtyPercent = 50_000, 100
		}), true)
		wait(2 * time.Second)
		if runs := f.cleaner.Status(partition).Runs; runs[runAborted] != 1 {
			t.Errorf("runs %v", runs)
		}
		f.cleaner.Configure(Options{Logger: quiet()})
		wait(5 * time.Second)
		if n := len(readKeys(t, f.log, 0)); n != 500 ||
			f.cleaner.Status(partition).Runs[runSuccess] != 1 {
			t.Errorf("%d records are left of 500 keys, runs %v", n,
				f.cleaner.Status(partition).Runs)
		}
	})
}
