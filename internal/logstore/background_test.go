package logstore

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestBackgroundFlushesEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		store, err := Open(Options{FS: mem, Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		log := createLog(t, store, settings(nil))
		fill(t, log, 25)
		if end := createLog(t, openStore(t, mem.CrashClone()), settings(nil)).LogEnd(); end != 0 {
			t.Errorf("%d records are synced before the first flush", end)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		content, err := mem.ReadFile(filepath.Join(dataDir, checkpoint.RecoveryPointFile))
		if err != nil || string(content) != "0\n1\ntickets 0 25\n" {
			t.Errorf("recovery point %q, %v", content, err)
		}
		again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
		if again.LogEnd() != 25 || again.HighWatermark() != 25 {
			t.Errorf("after a crash: end %d, high watermark %d", again.LogEnd(),
				again.HighWatermark())
		}
	})
}

func TestBackgroundRollsDeletesAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(Options{FS: vfs.NewMem(), Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		log := createLog(t, store,
			settings(func(s *topicconfig.Settings) {
				s.SegmentAge, s.RetentionTime = time.Hour, 30*time.Hour
			}))
		batch := storetest.Batch{Producer: 3, Keys: []string{"k"}, Timestamp: time.Now()}.Bytes(t)
		if _, err := log.Append(batch, time.Now()); err != nil {
			t.Fatal(err)
		}
		log.AdvanceHighWatermark(1)
		steps := []struct {
			elapsed   time.Duration
			segments  []int64
			producers int
			logStart  int64
		}{
			{59 * time.Minute, []int64{0}, 1, 0},
			{61 * time.Minute, []int64{0, 1}, 1, 0},
			{25 * time.Hour, []int64{0, 1}, 0, 0},
			{31 * time.Hour, []int64{1}, 0, 1},
		}
		began := time.Now()
		for _, step := range steps {
			time.Sleep(time.Until(began.Add(step.elapsed)))
			synctest.Wait()
			log.mu.Lock()
			known := log.mu.producers.Len()
			log.mu.Unlock()
			if !slices.Equal(bases(log), step.segments) || known != step.producers ||
				log.LogStart() != step.logStart {
				t.Errorf("after %v: segments %v, %d producers, log start %d", step.elapsed, bases(log),
					known, log.LogStart())
			}
		}
	})
}

func TestBackgroundFinishesDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll(filepath.Join(dataDir,
			"old-0.00000000000000000000000000000000-delete")); err != nil {
			t.Fatal(err)
		}
		store, err := Open(Options{FS: mem, Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		createLog(t, store, settings(nil))
		if err := store.Release(partition, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if names := directories(t, mem); len(names) > 0 {
			t.Errorf("directories left: %v", names)
		}
	})
}

func TestCloseIsOrderedAndRepeatable(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	store := openStore(t, trace)
	fill(t, createLog(t, store, settings(nil)), 12)
	trace.Take()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "close.trace", sizes.ReplaceAllString(trace.Take(), "0+<n>"))
	if err := store.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	if _, err := store.Create(partition, topicOne, settings(nil), true); err == nil {
		t.Error("created a log in a closed store")
	}
	trace.Take()
	reopened := openStore(t, trace)
	if got := trace.Take(); strings.Contains(got, "write") ||
		!strings.Contains(got, "remove "+datadir.CleanShutdownFile) {
		t.Errorf("a start after a clean shutdown writes:\n%s", got)
	}
	_ = reopened
}

// TestCleanShutdownMarkerWithHeldSlice checks that after a clean shutdown all index files are
// complete on disk, even those of a segment that a fetch response is still reading when the store
// is closed.
func TestCleanShutdownMarkerWithHeldSlice(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(func(c *topicconfig.Settings) { c.SegmentBytes = 1 << 20 }))
	for i := range 200 {
		moment := epoch0.Add(time.Duration(i) * time.Second)
		appendBatch(t, log, storetest.Batch{Keys: []string{"k"},
			Value: "a value of some thirty bytes", Timestamp: moment}.Bytes(t))
	}
	slice, err := log.Read(0, 200, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone()
	slice.Release()
	if _, err := crashed.Stat(filepath.Join(dataDir, datadir.CleanShutdownFile)); err != nil {
		t.Error(err)
	}
	for _, extension := range []string{segment.IndexExtension, segment.TimeIndexExtension} {
		name := filepath.Join(log.dir, segment.Name(0, extension, ""))
		want, err := mem.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := crashed.ReadFile(name); err != nil || len(want) == 0 ||
			!slices.Equal(got, want) {
			t.Errorf("%s has %d bytes after a crash, want %d; %v", extension, len(got), len(want),
				err)
		}
	}
}

func TestNoCleanShutdownMarkerWithoutIndexes(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	store := openStore(t, fault)
	fill(t, createLog(t, store, settings(nil)), 5)
	store.tick(epoch0, false)
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: "*.timeindex", Err: syscall.ENOSPC})
	if err := store.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v", err)
	}
	fault.Clear()
	if _, err := fault.Stat(filepath.Join(dataDir, datadir.CleanShutdownFile)); err == nil {
		t.Error("the clean-shutdown marker was written")
	}
}
