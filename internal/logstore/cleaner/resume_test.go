package cleaner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestPassResumesAfterRestart checks a pass that a restart interrupts. The rewrites that the pass
// has committed remain, and the next pass compacts only the remaining segments.
func TestPassResumesAfterRestart(t *testing.T) {
	config := slowPass(nil)
	inBubble(t, config, Options{Workers: -1}, func(t *testing.T, f *fixture) {
		for i := range 600 { // half of each batch is garbage, so passes rewrite every segment
			batch := storetest.Batch{Value: strings.Repeat("v", 200), Timestamp: time.Now()}
			for j := range 5 {
				batch.Keys = append(batch.Keys, fmt.Sprintf("hot %d", j),
					fmt.Sprintf("unique %d", i*5+j))
			}
			if _, err := f.log.Append(batch.Bytes(t), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		f.log.AdvanceHighWatermark(f.log.LogEnd())
		wait(2 * time.Second)
		total := f.cleaner.Status(partition).DirtyBytes
		f.cleaner.Configure(Options{IOBytesRate: 10_000, Logger: quiet()})
		f.until(time.Hour, "committed part", func() bool {
			status := f.cleaner.Status(partition)
			return status.RemovedRecords > 1_000 && status.Reason == reasonCleaning
		})
		first := f.cleaner.Status(partition)
		if f.log.Compaction().Progress.FirstDirty() != 0 || first.Runs[runSuccess] != 0 ||
			first.RemovedRecords > 2_500 {
			t.Fatalf("clean to %d, status %+v", f.log.Compaction().Progress.FirstDirty(), first)
		}
		f.restart()
		f.until(time.Minute, "pass over the rest",
			func() bool { return f.cleaner.Status(partition).Runs[runSuccess] > 0 })
		second := f.cleaner.Status(partition)
		if all := first.RemovedRecords + second.RemovedRecords; all > 3_000 || all < 2_500 {
			t.Errorf("%d records were removed before the restart, and %d after it",
				first.RemovedRecords, second.RemovedRecords)
		}
		if left := total * (3_000 - first.RemovedRecords) / 3_000; second.ReadBytes > left*11/10 {
			t.Errorf(
				"%d bytes were read after the restart, want about the %d of segments not yet cleaned",
				second.ReadBytes,
				left,
			)
		}
	})
}

func TestRetentionContinuesInQuarantine(t *testing.T) { // I7; in Kafka, retention stops
	config := compacted(func(s *topicconfig.Settings) {
		s.Delete, s.RetentionTime = true, time.Hour
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(50, 5)
		f.put("kept")
		f.put(keys...)
		f.flipFirstBit(f.log)
		wait(15 * time.Second)
		f.wantReason(reasonQuarantined)
		// Prevent a retry. It would succeed once retention has deleted the damaged segment.
		f.cleaner.mu.Lock()
		f.cleaner.mu.logs[partition].quarantine.until = time.Now().Add(100 * time.Hour)
		f.cleaner.mu.Unlock()
		wait(90 * time.Minute)
		f.put("fresh")
		wait(time.Minute)
		f.wantReason(reasonQuarantined)
		if start := f.log.LogStart(); start < 40 {
			t.Errorf("the log starts at %d after its retention", start)
		}
	})
}

// lines is a slog.Handler that collects all log lines.
type lines struct {
	mu  sync.Mutex
	all []slog.Record
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
	return nil
}

// of returns the log lines with the given message.
func (l *lines) of(message string) (found []slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		if r.Message == message {
			found = append(found, r)
		}
	}
	return found
}

func TestPassIsLoggedInOneLine(t *testing.T) {
	inBubble(t, compacted(nil), Options{Workers: -1}, func(t *testing.T, f *fixture) {
		var logged lines
		f.cleaner.Configure(Options{Logger: slog.New(&logged)})
		keys, _ := updatesOf(50, 5)
		f.put(keys...)
		wait(5 * time.Second)
		runs := int64(0)
		for _, n := range f.cleaner.Status(partition).Runs {
			runs += n
		}
		ended := logged.of("compaction completed")
		if runs == 0 || int64(len(ended)) != runs {
			t.Fatalf("%d log lines for %d passes", len(ended), runs)
		}
		var keysOf []string
		ended[0].Attrs(func(a slog.Attr) bool { keysOf = append(keysOf, a.Key); return true })
		for _, key := range []string{
			"result", "trigger", "seconds", "cleanedTo", "readBytes", "writtenBytes",
			"reclaimedBytes", "sidecarReadBytes", "removedRecords",
			"rewrittenSegments", "untouchedSegments", "garbageBytes", "memoryPeakBytes",
			"memoryGrantedBytes",
		} {
			if !slices.Contains(keysOf, key) {
				t.Errorf("the line has the attributes %v, want %s", keysOf, key)
			}
		}
	})
}
