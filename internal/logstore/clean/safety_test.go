package clean

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// wantFailure runs a pass and checks that it fails with the error want, replaces no segment and
// leaves no unfinished files.
func (l *fakeLog) wantFailure(ctx context.Context, want error) {
	l.t.Helper()
	before := l.content()
	_, err := l.try(ctx)
	if !errors.Is(err, want) {
		l.t.Errorf("pass failed with %v, want %v", err, want)
	}
	if l.commits != 0 || l.content() != before || len(l.leftovers()) > 0 {
		l.t.Errorf("%d commits, leftover files %v, log contains %s, want %s", l.commits,
			l.leftovers(), l.content(), before)
	}
}

func TestI42CorruptBatchStopsThePassBeforeAnyChange(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.put("b=1", "b=2")
	l.roll()
	l.put("c=1")
	l.roll()
	s := l.segments[0]
	one := make([]byte, 1)
	position := s.SizeBytes() - 3
	if _, err := s.File().ReadAt(one, position); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 4
	if _, err := s.File().WriteAt(one, position); err != nil {
		t.Fatal(err)
	}
	_, err := l.try(context.Background())
	if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "segment 0") {
		t.Errorf("error %v, want ErrCorrupt that names the segment", err)
	}
	if l.commits != 0 || len(l.leftovers()) > 0 {
		t.Errorf("%d commits, leftover files %v", l.commits, l.leftovers())
	}
}

// TestOpaqueBatchIsKeptAndPreventsTombstoneRemoval checks a batch that decompresses to too many
// bytes. In Kafka such a batch makes the log uncleanable (apache/kafka#23429, KAFKA-6834).
func TestOpaqueBatchIsKeptAndPreventsTombstoneRemoval(t *testing.T) {
	l := newLog(t)
	l.job.Limits.BatchBytesMax, l.job.Rules.TombstoneRetention = 1<<20, 0
	l.batch(compress.Zstd, record.Identity{ProducerID: -1}, "hidden="+strings.Repeat("x", 2<<20))
	l.put("a=1", "a=2", "hidden")
	l.batch(compress.None, record.Identity{ProducerID: -1, DeleteHorizonMs: 1}, "stamped long ago")
	l.put("z=1")
	l.roll()
	var stats Stats
	for range 3 {
		stats = l.pass()
	}
	if stats.OpaqueBatches != 1 || stats.TombstonesRemoved != 0 || !stats.NextPass.IsZero() {
		t.Errorf("stats %+v", stats)
	}
	if got := l.content(); !strings.HasPrefix(got, "0:hidden=xxx") ||
		!strings.HasSuffix(got, " 2:a=2 3:hidden 4:stamped long ago 5:z=1") {
		t.Errorf("log contains %.20s ... %s", got, got[len(got)-40:])
	}
}

// TestF1MoreMemoryDoesNotRestoreADeletedKey checks that the memory budget of a pass does not affect
// which batches it reads. Otherwise a pass with a small budget would overlook the value of a
// deleted key in a large batch, and treat the tombstone as removable. The key would reappear once
// the tombstone is removed.
func TestF1MoreMemoryDoesNotRestoreADeletedKey(t *testing.T) {
	l := newLog(t)
	l.job.Limits.MemoryBytes, l.job.Rules.TombstoneRetention = 1<<20, 0
	l.batch(compress.Zstd, record.Identity{ProducerID: -1}, "a=1",
		"hidden="+strings.Repeat("x", 3<<20))
	l.put("b=1")
	l.put("hidden")
	l.put("z=1")
	l.roll()
	l.pass()
	l.job.Limits.MemoryBytes = 64 << 20
	for range 3 {
		l.pass()
	}
	l.want("0:a=1 2:b=1 4:z=1")
}

// TestI41HugeBatchesAreCleaned checks that a batch is cleaned even if it is larger than the current
// max.message.bytes (KAFKA-4019, KAFKA-6834).
func TestI41HugeBatchesAreCleaned(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 1000
	l.put("a=1", "big="+strings.Repeat("x", 20<<20), "a=2")
	l.put("b=1")
	l.roll()
	l.pass()
	if got := l.content(); !strings.HasSuffix(got, "2:a=2 3:b=1") || len(got) < 20<<20 {
		t.Errorf("log contains %d bytes, ending with %s", len(got), got[len(got)-20:])
	}
}

func TestCancelledPassStopsWithinOneBatch(t *testing.T) {
	l := newLog(t)
	l.fill("k", 50)
	l.fill("k", 50)
	l.roll()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.wantFailure(ctx, context.Canceled)
	stats, _ := l.try(ctx)
	if stats.RecordsRead > 0 || stats.LogReadBytes > 200 {
		t.Errorf("stats %+v", stats)
	}
}

func TestI37PassCancelledWhileRewritingLeavesNoFiles(t *testing.T) {
	l := newLog(t)
	l.fill("k", 50)
	l.fill("k", 50)
	l.roll()
	ctx, cancel := context.WithCancel(context.Background())
	l.job.Env.Report = func(p PassProgress) {
		if p.Phase == Rewriting {
			cancel()
		}
	}
	l.wantFailure(ctx, context.Canceled)
}

// TestDiskFailureAtAnyStepLeavesNoFiles fails each operation on the output files in turn, as on a
// full disk (KAFKA-7866). It does not fail closes, because a failed close of a file without
// unsynced writes loses nothing.
func TestDiskFailureAtAnyStepLeavesNoFiles(t *testing.T) {
	failed := 0
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpOpen, vfs.OpWrite, vfs.OpTruncate, vfs.OpSync} {
		rule := vfs.Rule{Op: op, Name: "*.cleaned", Times: 1}
		for passFails(t, rule) {
			rule.Skip++
			failed++
		}
	}
	if failed < 10 {
		t.Errorf("%d steps failed, want at least 10", failed)
	}
}

// passFails runs a pass while a rule fails operations on the pass's output files. It reports
// whether the pass failed. A failed pass must leave the log unchanged.
func passFails(t *testing.T, rule vfs.Rule) bool {
	t.Helper()
	l := newLog(t)
	l.fill("k", 30)
	l.roll()
	l.fill("k", 30)
	l.roll()
	before := l.content()
	fault := vfs.NewFault(l.fsys)
	fault.Inject(rule)
	l.job.Env.Create = func(base int64) (*segment.Segment, error) {
		return segment.Create(fault, "/", base, ".cleaned", segment.Config{})
	}
	l.job.Env.Replace = func(sources, cleaned []*segment.Segment) error {
		fault.Clear()
		return l.replace(sources, cleaned)
	}
	_, err := l.try(context.Background())
	if err == nil {
		return false
	}
	if l.commits != 0 || l.content() != before || len(l.leftovers()) > 1 {
		t.Fatalf("%s number %d failed: %v, %d commits, leftover files %v", rule.Op, rule.Skip, err,
			l.commits, l.leftovers())
	}
	return true
}

func TestFailedReplaceEndsThePass(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.roll()
	broken := errors.New("retention deleted a segment")
	l.job.Env.Replace = func(_, cleaned []*segment.Segment) error {
		for _, s := range cleaned {
			l.must(errors.Join(s.Remove(), s.Close(),
				removed(l.fsys.Remove(l.derivedName(s.Base())))))
		}
		return broken
	}
	l.wantFailure(context.Background(), broken)
}

func TestProgressNeverDecreasesAndEndsAtOne(t *testing.T) {
	l := newLog(t)
	l.fill("k", 3000)
	l.roll()
	l.fill("k", 1500)
	l.roll()
	ratio, phase, measured := 0.0, Idle, int64(0)
	l.job.Env.Report = func(p PassProgress) {
		now := float64(p.DoneBytes) / float64(p.TotalBytes)
		if now < ratio || p.DoneBytes > p.TotalBytes || p.MemoryBytes < 0 {
			t.Errorf("%s: %d of %d bytes done after a ratio of %f, %d bytes of memory", p.Phase,
				p.DoneBytes, p.TotalBytes, ratio, p.MemoryBytes)
		}
		ratio, phase = now, p.Phase
		if p.Measured {
			measured = max(measured, p.ReclaimableBytes)
		}
	}
	throttled := 0
	l.job.Env.Throttle = func(_ context.Context, n int) error { throttled += n; return nil }
	stats := l.pass()
	if ratio != 1 || phase != Committing {
		t.Errorf("progress ends with %f in phase %s", ratio, phase)
	}
	if share := float64(measured) / float64(stats.ReclaimedBytes); share < 0.95 || share > 1.05 {
		t.Errorf("measured %d bytes, freed %d", measured, stats.ReclaimedBytes)
	}
	if io := stats.LogReadBytes + stats.LogWrittenBytes + stats.SidecarReadBytes +
		stats.SidecarWrittenBytes; int64(throttled) > io ||
		int64(throttled) < io-throttleBytes {
		t.Errorf("throttled %d of %d bytes", throttled, io)
	}
}

// TestDecompressionBombIsKeptInBoundedMemory checks a batch of a few kilobytes that decompresses to
// tens of megabytes. Kafka's cleaner ran out of memory on such a batch (apache/kafka#23429).
func TestDecompressionBombIsKeptInBoundedMemory(t *testing.T) {
	l := newLog(t)
	l.job.Limits.BatchBytesMax = 1 << 20
	l.put("a=1", "b=1")
	// The helper stores the text in the value and in a header, which makes 64 MiB in total.
	l.batch(compress.Zstd, record.Identity{ProducerID: -1}, "bomb="+strings.Repeat("x", 32<<20))
	l.put("a=2")
	l.put("z=1")
	l.roll()
	var stats Stats
	if allocated := allocatedBy(func() { stats = l.pass() }); allocated > 16<<20 {
		t.Errorf("the pass took %d bytes of memory, want at most 16 MiB", allocated)
	}
	if size := l.segments[0].SizeBytes(); size > 64<<10 {
		t.Errorf("a segment of %d bytes, want at most 64 KiB", size)
	}
	if stats.OpaqueBatches != 1 || stats.RecordsRemoved != 1 {
		t.Errorf("%d opaque batches, %d records removed, want 1 and 1", stats.OpaqueBatches,
			stats.RecordsRemoved)
	}
}

// TestProgressEndsWithTheLastReplacement checks that a pass does not report its progress as
// complete while a segment that it has chosen is still in the log. A pass reads the sidecars to
// compare keys, and again to derive the sidecars of its output.
func TestProgressEndsWithTheLastReplacement(t *testing.T) {
	for name, memory := range map[string]int64{"one window": 64 << 20, "several windows": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.job.Limits.MemoryBytes, l.job.Rules.SegmentBytes = memory, 1
			for i := range 6 {
				l.fill("k", 500)
				l.fill(fmt.Sprintf("own%d-", i), 200)
				l.roll()
			}
			left, groups, ratio := map[int64]bool{}, 0, 0.0
			l.job.Env.Stage = func(step Step) {
				switch step.Kind {
				case StepAnnounce:
					for _, s := range step.Segments {
						if s.Chosen {
							left[s.Base] = true
						}
					}
				case StepReplace:
					groups++
					maps.DeleteFunc(left,
						func(base int64, _ bool) bool { return step.From <= base && base < step.To })
				}
			}
			l.job.Env.Report = func(p PassProgress) {
				now := float64(p.DoneBytes) / float64(p.TotalBytes)
				if now < ratio || now >= 1 && len(left) > 0 {
					t.Errorf("%s: %d of %d bytes done after a ratio of %f, while %d chosen segments "+
						"are left", p.Phase, p.DoneBytes, p.TotalBytes, ratio, len(left))
				}
				ratio = now
			}
			l.pass()
			if groups < 4 || len(left) != 0 || ratio != 1 {
				t.Errorf("%d groups were rewritten, %d segments are left, the progress ends with %f",
					groups, len(left), ratio)
			}
		})
	}
}
