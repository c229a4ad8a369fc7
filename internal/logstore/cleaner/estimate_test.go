package cleaner

import (
	"fmt"
	"math"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// garbage returns the log's garbage ratio from its status. The ratio must be known.
func (f *fixture) garbage() (ratio float64, exact bool) {
	f.t.Helper()
	status := f.cleaner.Status(partition)
	if status.GarbageRatio == nil || status.ReclaimableBytes == nil {
		f.t.Fatalf("unknown garbage: %+v", status)
	}
	return *status.GarbageRatio, status.ReclaimableExact
}

// TestDirtySectionWithoutGarbageIsSkipped uses a log with unique keys, like a topic that was just
// filled. No pass runs, because there is no garbage. Kafka's cleaner would copy the log repeatedly.
func TestDirtySectionWithoutGarbageIsSkipped(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MaxGarbagePercent = 50_000, 10
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 2_000, 2_000)
		wait(15 * time.Second)
		f.wantReason(reasonNothingToReclaim)
		status := f.cleaner.Status(partition)
		if status.Runs[runNothingToDo]+status.Runs[runSuccess] != 0 || status.ReadBytes+
			status.WrittenBytes != 0 {
			t.Errorf("status %+v, want no byte of the log read", status)
		}
		if ratio, exact := f.garbage(); ratio != 0 || exact {
			t.Errorf("garbage %g, exact %t", ratio, exact)
		}
		// Some keys are updated. A pass runs as soon as the log contains more garbage than the
		// topic allows.
		f.fillWith(f.log, 300, 300)
		wait(15 * time.Second)
		f.wantReason(reasonNothingToReclaim)
		if ratio, _ := f.garbage(); ratio == 0 || ratio > 0.1 {
			t.Errorf("garbage %g, want 0 < garbage <= 0.1", ratio)
		}
		f.fillWith(f.log, 1_000, 1_000)
		wait(15 * time.Second)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] != 1 {
			t.Errorf("runs %v", runs)
		}
		if ratio, _ := f.garbage(); ratio > 0.1 {
			t.Errorf("garbage %g after the pass", ratio)
		}
	})
}

func TestDirtySectionWaitsForOneRetentionAtMost(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.TombstoneRetention = 50_000, time.Hour
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.delete("gone")
		f.fillWith(f.log, 2_000, 2_000)
		wait(55 * time.Minute)
		f.wantReason(reasonNothingToReclaim)
		wait(10 * time.Minute)
		if runs := f.cleaner.Status(partition).Runs; runs[runNothingToDo] != 1 {
			t.Errorf("runs %v: no pass for the tombstone", runs)
		}
		wait(time.Hour)
		if n := len(readKeys(t, f.log, 0)); n != 2_000 {
			t.Errorf("%d records: the tombstone is not removed", n)
		}
	})
}

func TestEstimateErrorIsWithinTwoPercentPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("many records take some seconds")
	}
	const records = 120_000
	for name, key := range map[string]func(i int) int{
		"uniform":     func(i int) int { return i * 7919 % (records / 2) },
		"unique":      func(i int) int { return i },
		"one hot key": func(i int) int { return i * (i % 2) },
		"skewed": func(i int) int {
			return int(math.Pow(float64(i*7919%records)/records,
				4) * records)
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := compacted(func(s *topicconfig.Settings) {
				s.SegmentBytes, s.MinDirtyPercent = 2<<20, 100
			})
			inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
				value := string(make([]byte, 120))
				for i := 0; i < records; i += 500 {
					batch := storetest.Batch{Value: value, Timestamp: time.Now()}
					for j := range 500 {
						batch.Keys = append(batch.Keys, fmt.Sprintf("key %d", key(i+j)))
					}
					if _, err := f.log.Append(batch.Bytes(t), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				f.log.AdvanceHighWatermark(f.log.LogEnd())
				wait(15 * time.Second)
				estimated, exact := f.garbage()
				// Run a pass that counts the garbage. It rewrites only segments without a live
				// record, because it may leave 100 % garbage.
				log := f.log.Compaction()
				settings, dirty := *log.Settings(), f.cleaner.Status(partition).DirtyBytes
				settings.MaxGarbagePercent = 100
				stats, err := log.Pass(t.Context(), compaction.PassOptions{Settings: &settings,
					MemoryBytes: 64 << 20})
				if err != nil {
					t.Fatal(err)
				}
				counted := float64(stats.GarbageBytes+
					stats.ReclaimedBytes) / float64(dirty)
				if exact || math.Abs(estimated-counted) > 0.02 {
					t.Errorf("estimated %.4f (exact: %t), counted %.4f", estimated, exact, counted)
				}
				t.Logf("estimated %.4f, counted %.4f", estimated, counted)
			})
		})
	}
}

func TestGarbageCountSurvivesRestart(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MaxGarbagePercent, s.MinDirtyPercent = 50_000, 40, 0
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 3_000, 1_500)
		f.until(time.Minute, "the log is clean",
			func() bool { return f.cleaner.Status(partition).Runs[runSuccess] > 0 })
		wait(time.Minute)
		before := f.cleaner.Status(partition)
		if before.ReclaimableBytes == nil || *before.ReclaimableBytes == 0 ||
			!before.ReclaimableExact {
			t.Fatalf("status %+v, want counted garbage", before)
		}
		firstDirty, due := f.log.Compaction().Progress.FirstDirty(), f.tombstonesDue()
		f.restart()
		wait(5 * time.Second)
		after := f.cleaner.Status(partition)
		if after.ReclaimableBytes == nil || *after.ReclaimableBytes != *before.ReclaimableBytes ||
			!after.ReclaimableExact {
			t.Errorf("status %+v after the restart, want %d counted bytes", after,
				*before.ReclaimableBytes)
		}
		if f.log.Compaction().Progress.FirstDirty() != firstDirty || f.tombstonesDue() != due {
			t.Errorf("first dirty offset %d, next pass due at %d; before the restart %d and %d",
				f.log.Compaction().Progress.FirstDirty(), f.tombstonesDue(), firstDirty, due)
		}
		if runs := after.Runs; runs[runSuccess]+runs[runNothingToDo] != 0 {
			t.Errorf("runs %v after the restart", runs)
		}
	})
}

// tombstonesDue returns the time in ms at which a pass can next remove tombstones from the log.
func (f *fixture) tombstonesDue() int64 {
	sections, _ := f.log.Compaction().Sections(time.Now())
	return sections.TombstonesDue
}

// estimatedDirtyBytes returns the size of the dirty section at the last estimate.
func (f *fixture) estimatedDirtyBytes() int64 {
	f.cleaner.mu.Lock()
	defer f.cleaner.mu.Unlock()
	return f.cleaner.mu.logs[partition].estimate.Sections.DirtyBytes
}

func TestEstimatesAreRepeatedOnlyAfterGrowth(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent = 20_000, 100
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 10_000, 10_000)
		wait(15 * time.Second)
		before := f.log.Compaction().SidecarBytes().Read
		wait(time.Hour)
		if after := f.log.Compaction().SidecarBytes().Read; after != before {
			t.Errorf("%d bytes of sidecars read though nothing has changed", after-before)
		}
		first := f.estimatedDirtyBytes()
		f.fillWith(f.log, 100, 100) // adds one segment: a hundredth of the log
		wait(15 * time.Second)
		if f.estimatedDirtyBytes() != first {
			t.Error("estimated again after growth by a hundredth")
		}
		f.fillWith(f.log, 500, 500)
		wait(15 * time.Second)
		if f.estimatedDirtyBytes() == first {
			t.Error("not estimated again after growth by a twentieth")
		}
	})
}

func TestEstimateBecomesStale(t *testing.T) {
	v := compaction.Sections{CleanBytes: 1000, DirtyBytes: 1000, FirstDirty: 5, Truncations: 1}
	e := estimate{made: true, Garbage: compaction.Garbage{Sections: v}}
	for name, change := range map[string]func(e *estimate, v *compaction.Sections){
		"no estimate": func(e *estimate, _ *compaction.Sections) { e.made = false },
		"truncated":   func(_ *estimate, v *compaction.Sections) { v.Truncations++ },
		"cleaned":     func(_ *estimate, v *compaction.Sections) { v.FirstDirty++ },
		"retention":   func(_ *estimate, v *compaction.Sections) { v.DirtyBytes-- },
		"grown":       func(_ *estimate, v *compaction.Sections) { v.DirtyBytes += 70 },
		"no longer exact": func(e *estimate,
			v *compaction.Sections) {
			e.Exact = true
			v.DirtyBytes++
		},
		"one byte more": func(_ *estimate, v *compaction.Sections) { v.DirtyBytes++ },
		"unchanged":     func(*estimate, *compaction.Sections) {},
	} {
		e, v := e, v
		change(&e, &v)
		if got, want := e.stale(v), name != "one byte more" && name != "unchanged"; got != want {
			t.Errorf("%s: stale %t", name, got)
		}
	}
}

func TestEstimateDecidesWhetherAPassPays(t *testing.T) {
	s := topicconfig.Settings{MaxGarbagePercent: 20, TombstoneRetention: time.Hour}
	v := compaction.Sections{CleanBytes: 500, DirtyBytes: 500, OldestDirty: epoch0}
	now := epoch0.Add(time.Minute)
	for name, c := range map[string]struct {
		e    estimate
		now  time.Time
		want bool
	}{
		"unknown":    {estimate{}, now, true},
		"no garbage": {estimate{Garbage: compaction.Garbage{Known: true}}, now, false},
		"less than allowed": {estimate{Garbage: compaction.Garbage{Known: true, Bytes: 200}}, now,
			false},
		"more than allowed": {estimate{Garbage: compaction.Garbage{Known: true, Bytes: 201}}, now,
			true},
		"more within the error": {estimate{Garbage: compaction.Garbage{Known: true, Bytes: 190,
			Error: 0.02}}, now, true},
		"before a truncation": {estimate{Garbage: compaction.Garbage{Known: true,
			Sections: compaction.Sections{Truncations: 7}}}, now, true},
		"no garbage for one retention": {estimate{Garbage: compaction.Garbage{Known: true}},
			epoch0.Add(time.Hour), true},
	} {
		if got := c.e.worthPass(v, &s, c.now); got != c.want {
			t.Errorf("%s: pays %t", name, got)
		}
	}
}
