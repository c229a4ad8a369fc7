package cleaner

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ended returns the passes that have ended, with their steps, oldest first.
func (f *fixture) ended() (passes []report.PartitionPass) {
	f.t.Helper()
	all, _ := f.cleaner.Passes(passlog.Filter{Partition: -1, Limit: report.PassesMax, Steps: true})
	for _, pass := range slices.Backward(all) {
		if pass.Ended != nil {
			passes = append(passes, pass)
		}
	}
	return passes
}

func (f *fixture) segments() report.Segments {
	f.t.Helper()
	all, err := f.cleaner.Segments(partition, 0, 1<<20)
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// replay returns the segments, by base offset, that result from the steps of a pass over a log.
func replay(t *testing.T, steps []report.Step) map[int64]int64 {
	t.Helper()
	log, chosen, read := map[int64]int64{}, map[int64]bool{}, map[int64]int64{}
	var group []int64
	for i, step := range steps {
		switch step.Kind {
		case report.StepAnnounce:
			for _, s := range step.Segments {
				log[s.Base] = s.Bytes
				if s.Chosen {
					chosen[s.Base] = true
				}
				if s.Forced && !s.Chosen {
					t.Errorf("segment %d is forced and not chosen", s.Base)
				}
			}
		case report.StepGroup:
			group = nil
			for _, s := range step.Segments {
				if !chosen[s.Base] || log[s.Base] != s.Bytes || s.Base < *step.From ||
					s.Base >= *step.To {
					t.Errorf("step %d begins with segment %+v", i, s)
				}
				group = append(group, s.Base)
			}
		case report.StepRead:
			if !slices.Contains(group, *step.Base) || step.Position < read[*step.Base] {
				t.Errorf("step %d reads segment %d of %v", i, *step.Base, group)
			}
			read[*step.Base] = step.Position
		case report.StepReplace:
			for _, base := range group {
				if read[base] != log[base] {
					t.Errorf("segment %d was replaced after %d of %d bytes", base, read[base], log[base])
				}
			}
			maps.DeleteFunc(log,
				func(base, _ int64) bool { return *step.From <= base && base < *step.To })
			maps.DeleteFunc(chosen,
				func(base int64, _ bool) bool { return *step.From <= base && base < *step.To })
			for _, s := range step.Segments {
				log[s.Base] = s.Bytes
			}
		}
		if i > 0 && step.After < steps[i-1].After {
			t.Errorf("step %d is earlier than the one before", i)
		}
	}
	if len(chosen) != 0 {
		t.Errorf("segments %v were chosen, and not replaced", chosen)
	}
	return log
}

// TestStepsLeadToTheSegmentsOnDisk replays the steps of the last pass. The result matches the
// segment report and the segments on disk.
func TestStepsLeadToTheSegmentsOnDisk(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		rewritten := 0
		for round := range 5 {
			keys, _ := updatesOf(60+40*round, 7)
			f.put(keys...)
			before := len(f.ended())
			f.cleanNow()
			f.until(time.Minute, "another pass", func() bool { return len(f.ended()) > before })
			passes := f.ended()
			last := passes[len(passes)-1]
			got, rows := replay(t, last.Steps), f.segments()
			want := map[int64]int64{}
			for _, row := range rows.Segments {
				if row.State == report.SegmentClean {
					want[row.Base] = row.Bytes
				}
				if row.Chosen || row.Forced {
					t.Errorf("segment %d is chosen without a running pass", row.Base)
				}
			}
			if !maps.Equal(got, want) || len(want) == 0 {
				t.Fatalf("round %d: the steps lead to %v, the log has %v", round, got, want)
			}
			if last.Steps[len(last.Steps)-1].Kind != report.StepEnd || last.Trigger != "requested" ||
				last.Result == "" {
				t.Errorf("got %+v", last)
			}
			rewritten += last.RewrittenSegments
			status := f.cleaner.Status(partition)
			if *status.LastPass != last.Pass {
				t.Errorf("the history has %+v, the status %+v", last.Pass, *status.LastPass)
			}
		}
		if rewritten == 0 {
			t.Error("no pass has rewritten a segment")
		}
	})
}

// TestRunningPassIsReported checks that the history contains a running pass with its sums, and that
// the pass's chosen segments are marked. A quarantined log has dirty segments that are blocked.
func TestRunningPassIsReported(t *testing.T) {
	large := compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 })
	inBubble(t, large, Options{IOBytesRate: 2048}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 20_000, 5_000) // four megabytes, which take more than half an hour to read
		running := func() (passes []report.PartitionPass) {
			passes, _ = f.cleaner.Passes(passlog.Filter{Partition: -1, Limit: 9, Running: true})
			return passes
		}
		chosen := func() (n int) {
			for _, row := range f.segments().Segments {
				if row.Chosen {
					n++
				}
			}
			return n
		}
		f.until(3*time.Hour, "a chosen segment", func() bool { return chosen() > 0 })
		passes := running()
		if len(passes) != 1 || passes[0].Topic != partition.Topic {
			t.Fatalf("passes %+v, want one of %s", passes, partition.Topic)
		}
		if passes[0].Began == 0 || passes[0].Ended != nil {
			t.Errorf("pass %+v, want one that has begun and not ended", passes[0])
		}
		if passes[0].SidecarReadBytes == 0 {
			t.Errorf("pass %+v, want the bytes read from sidecars", passes[0])
		}
		f.until(24*time.Hour, "the end", func() bool { return len(running()) == 0 })
		if n := chosen(); n != 0 {
			t.Errorf("%d segments are chosen after the pass", n)
		}
	})
}

// TestHistoryNamesThePartition checks that the passes of several logs have the names of their
// partitions.
func TestHistoryNamesThePartition(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		other := f.another(1, compacted(nil))
		keys, _ := updatesOf(60, 5)
		f.put(keys...)
		for i := range 60 {
			appendBatch(t, other, keyed(t, keys[i]))
		}
		f.until(time.Minute, "a pass over each log", func() bool {
			seen := map[string]bool{}
			for _, p := range f.ended() {
				seen[fmt.Sprint(p.Topic, p.Partition)] = true
			}
			return seen["tickets0"] && seen["tickets1"]
		})
	})
}
