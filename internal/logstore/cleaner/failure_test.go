package cleaner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// flipFirstBit flips a bit of the first batch, which invalidates the batch's checksum. A second
// call repairs the batch.
func (f *fixture) flipFirstBit(log *logstore.Log) {
	f.t.Helper()
	f.flipBit(log, log.LogStart())
}

// flipBit flips a bit of the batch at an offset. A pass detects this only if it reads the batch; it
// does not read dead batches.
func (f *fixture) flipBit(log *logstore.Log, offset int64) {
	f.t.Helper()
	slice, err := log.Read(offset, log.LogEnd(), 1, true)
	if err != nil {
		f.t.Fatal(err)
	}
	position, name := slice.Position, slice.File.Name()
	slice.Release()
	file, err := f.fsys.OpenReadWrite(name)
	if err != nil {
		f.t.Fatal(err)
	}
	one := make([]byte, 1)
	_, readErr := file.ReadAt(one, position+80)
	one[0] ^= 1
	_, writeErr := file.WriteAt(one, position+80)
	if err := errors.Join(readErr, writeErr, file.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func TestI7FailedPartitionIsQuarantinedAndRetried(t *testing.T) { // KAFKA-7215, 8725, 19895
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		other, err := f.store.Create(logstore.PartitionID{Topic: "tickets", Index: 1}, topicOne,
			compacted(nil), true)
		if err != nil {
			t.Fatal(err)
		}
		keys, latest := updatesOf(50, 5)
		f.put("kept")
		f.put(keys...)
		f.flipFirstBit(f.log)
		bad := f.log
		f.log = other
		f.put(keys...)
		wait(10 * time.Second)
		f.latest(latest)
		if runs := f.cleaner.Status(other.ID()).Runs; runs[runSuccess] == 0 {
			t.Errorf("the good partition is not compacted: %v", runs)
		}
		status := f.cleaner.Status(bad.ID())
		if status.Reason != reasonQuarantined || status.Runs[runFailed] != 1 ||
			!strings.Contains(status.LastError, "checksum") ||
			status.BlockedBytes[compaction.BlockedQuarantined] != status.DirtyBytes {
			t.Errorf("status of the bad partition %+v", status)
		}
		wait(10 * time.Minute)
		if runs := f.cleaner.Status(bad.ID()).Runs; runs[runFailed] < 3 || runs[runFailed] > 5 {
			t.Errorf("%d attempts in ten minutes, want a backoff that doubles from one minute",
				runs[runFailed])
		}
		f.flipFirstBit(bad) // repairs the batch
		// Configure the same settings again, as the broker does with each new metadata image.
		bad.Configure(compacted(nil), true)
		wait(3 * time.Second)
		if status := f.cleaner.Status(bad.ID()); status.Reason != reasonQuarantined {
			t.Errorf("equal settings ended the quarantine: %+v", status)
		}
		bad.Configure(compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 10 }), true)
		wait(3 * time.Second)
		if status := f.cleaner.Status(bad.ID()); status.Runs[runSuccess] != 1 ||
			status.LastError != "" {
			t.Errorf("not retried at once after a change of settings: %+v", status)
		}
	})
}

func TestQuarantineDoublesUpToAnHour(t *testing.T) {
	var q quarantine
	config, other := &topicconfig.Settings{}, &topicconfig.Settings{}
	for i, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		q = q.after(epoch0, config)
		if got := q.until.Sub(epoch0); got != want {
			t.Errorf("failure %d: %s", i+1, got)
		}
		if !q.active(epoch0.Add(want-1), config) || q.active(q.until, config) ||
			q.active(epoch0, other) {
			t.Errorf("failure %d: the quarantine does not end at %s, or ignores new settings", i+1,
				q.until)
		}
	}
}

// TestSmallBudgetIsEnough checks that a very small memory budget does not make a pass fail. It only
// makes the pass read sidecars in shorter pieces.
func TestSmallBudgetIsEnough(t *testing.T) {
	inBubble(t, compacted(nil), Options{MemoryBytes: 1000},
		func(t *testing.T, f *fixture) {
			keys, latest := updatesOf(50, 5)
			f.put(keys...)
			wait(5 * time.Second)
			if status := f.cleaner.Status(partition); status.Runs[runSuccess] == 0 ||
				status.LastError != "" {
				t.Errorf("status %+v", status)
			}
			f.latest(latest)
		})
}

func TestI40IOBudgetBoundsAllReadsAndWrites(t *testing.T) {
	const rate = 20_000
	inBubble(t, compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 100_000 }),
		Options{IOBytesRate: rate}, func(t *testing.T, f *fixture) {
			began := time.Now()
			for i := range 5000 {
				f.put(fmt.Sprintf("k%d", i%2500))
			}
			wait(3 * time.Second)
			status := f.cleaner.Status(partition)
			for range 60 { // sidecars are built before the pass, within the same I/O budget
				if status = f.cleaner.Status(partition); status.ReadBytes > 0 {
					break
				}
				wait(time.Second)
			}
			if status.Reason != reasonCleaning || status.ReadBytes == 0 {
				t.Fatalf("status %+v, want a running pass that has read", status)
			}
			if status.ProgressRatio <= 0 || status.ProgressRatio >= 1 {
				t.Fatalf("progress %f, want it between 0 and 1", status.ProgressRatio)
			}
			if status.EtaSeconds == nil {
				t.Fatalf("status %+v, want an estimate of the end", status)
			}
			for f.cleaner.Status(partition).Runs[runSuccess] == 0 {
				wait(time.Second)
			}
			status = f.cleaner.Status(partition)
			spent := status.ReadBytes + status.WrittenBytes + status.SidecarReadBytes +
				status.SidecarWrittenBytes
			background := f.log.Compaction().SidecarBytes() // uses the same I/O budget
			spent += background.Read + background.Written + background.Scanned
			least := time.Duration(float64(spent-4*burstBytesMin) / rate * float64(time.Second))
			if took := time.Since(began); took < least || took > 2*least {
				t.Errorf("%d bytes took %s, want about %s", spent, took, least)
			}
		})
}

// slowBudget is an I/O budget with which a pass takes hours.
var slowBudget = Options{IOBytesRate: 100}

func startSlowPass(f *fixture) {
	for i := range 5000 {
		f.put(fmt.Sprintf("k%d", i%2500))
	}
	wait(5*time.Second + earlyWaitMax)
	f.wantReason(reasonCleaning)
}

func TestI36ReleaseAbortsPassWithinASecond(t *testing.T) { // I36
	inBubble(t, compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 100_000 }), slowBudget,
		func(t *testing.T, f *fixture) {
			startSlowPass(f)
			if err := f.store.Release(partition, false); err != nil {
				t.Fatal(err)
			}
			wait(time.Second + time.Millisecond)
			f.cleaner.mu.Lock()
			busy := f.cleaner.mu.passes
			f.cleaner.mu.Unlock()
			if busy != 0 || f.cleaner.Status(partition) != nil {
				t.Errorf("%d passes still run", busy)
			}
			// Create the partition again. The aborted pass must not affect the partition's new log.
			var err error
			if f.log, err = f.store.Create(partition, topicTwo, compacted(nil), true); err != nil {
				t.Fatal(err)
			}
			keys, latest := updatesOf(50, 5)
			f.cleaner.Configure(Options{Logger: quiet()})
			f.put(keys...)
			wait(5 * time.Second)
			f.latest(latest)
			if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 ||
				runs[runAborted] != 0 {
				t.Errorf("runs of the new log %v", runs)
			}
		})
}

func TestI6PolicyChangeAbortsPass(t *testing.T) { // KAFKA-4015: change the policy during a pass
	inBubble(t, compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 100_000 }), slowBudget,
		func(t *testing.T, f *fixture) {
			startSlowPass(f)
			f.log.Configure(settings(nil), true)
			wait(2 * time.Second)
			if status := f.cleaner.Status(partition); status != nil {
				t.Errorf("status %+v", status)
			}
			f.log.Configure(compacted(nil), true)
			wait(2*time.Second + earlyWaitMax)
			f.wantReason(reasonCleaning)
		})
}

func TestCloseAbortsPass(t *testing.T) {
	inBubble(t, compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 100_000 }), slowBudget,
		func(t *testing.T, f *fixture) {
			startSlowPass(f)
			began := time.Now()
			f.cleaner.Close()
			if took := time.Since(began); took > time.Second {
				t.Errorf("Close took %s", took)
			}
			entries, err := f.fsys.ReadDir(logDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if strings.HasSuffix(entry.Name(), cleanedSuffix) {
					t.Errorf("temporary file %s", entry.Name())
				}
			}
		})
}

// TestI38CrashDuringPassLosesNothing cuts the power at any rename, creation, removal or sync of a
// pass. The latest record of each key is then still in the log (I38).
func TestI38CrashDuringPassLosesNothing(t *testing.T) {
	seed := seed.New(t)
	var clones []*vfs.Mem
	var latest map[string]int64
	config := compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 0 })
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, fsys: vfs.NewMem()}
		recording := false
		recorder := &storetest.Disk{FS: f.fsys, Step: func(op, _ string) {
			if recording && op != "write" && op != "truncate" {
				clones = append(clones, f.fsys.CrashClone(),
					f.fsys.CrashClonePartly(seed+uint64(len(clones))))
			}
		}}
		var err error
		f.store, err = logstore.Open(logstore.Options{FS: recorder, Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		f.log = createLog(t, f.store, config)
		var keys []string
		keys, latest = updatesOf(80, 7)
		f.put(keys...)
		wait(3 * time.Second) // until all records are synced
		recording = true
		f.cleaner = New(f.store, Options{Logger: quiet()})
		wait(3 * time.Second)
		recording = false
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 {
			t.Errorf("runs %v", runs)
		}
		f.cleaner.Close()
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(clones) < 20 {
		t.Fatalf("only %d steps", len(clones))
	}
	for i, fsys := range clones {
		store, err := logstore.Open(logstore.Options{FS: fsys, Dir: dataDir, Logger: quiet(),
			FlushInterval: time.Hour})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		f := &fixture{t: t, log: store.Log(partition)}
		if f.log == nil || f.log.LogEnd() != 80 {
			t.Fatalf("step %d: the log is offline or has another end: %v", i, store.Offline())
		}
		f.log.AdvanceHighWatermark(80)
		f.latest(latest)
		if t.Failed() {
			t.Fatalf("step %d of %d", i, len(clones))
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
