package cleaner

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// fixture is a store with one log and a cleaner, in a synctest bubble.
type fixture struct {
	t       *testing.T
	fsys    *vfs.Mem
	store   *logstore.Store
	cleaner *Cleaner
	log     *logstore.Log
	// history opens a new cleaner's history; nil for a history in memory.
	history func() *passlog.Log
}

// inBubble calls run in a synctest bubble with a new fixture, whose log has the given settings.
func inBubble(t *testing.T, config topicconfig.Settings, opts Options,
	run func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, fsys: vfs.NewMem()}
		var err error
		f.store, err = logstore.Open(logstore.Options{FS: f.fsys, Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := f.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		f.log = createLog(t, f.store, config)
		opts.Logger = quiet()
		f.cleaner = New(f.store, opts)
		defer func() { f.cleaner.Close() }() // not f.cleaner.Close, because run may replace f.cleaner
		run(t, f)
	})
}

// restart closes the cleaner and the store, and opens them again.
func (f *fixture) restart() {
	f.t.Helper()
	f.cleaner.Close()
	if err := f.store.Close(); err != nil {
		f.t.Fatal(err)
	}
	var err error
	if f.store, err = logstore.Open(logstore.Options{FS: f.fsys, Dir: dataDir,
		Logger: quiet()}); err != nil {
		f.t.Fatal(err)
	}
	settings := f.log.Settings()
	f.log = f.store.Log(partition)
	f.log.Configure(settings, true)
	opts := Options{Logger: quiet()}
	if f.history != nil {
		opts.History = f.history()
	}
	f.cleaner = New(f.store, opts)
}

// put appends one batch for each key.
func (f *fixture) put(keys ...string) {
	f.t.Helper()
	for _, key := range keys {
		batch := storetest.Batch{Keys: []string{key}, Value: "a value of some thirty bytes",
			Timestamp: time.Now()}.Bytes(f.t)
		if _, err := f.log.Append(batch, time.Now()); err != nil {
			f.t.Fatal(err)
		}
		f.log.AdvanceHighWatermark(f.log.LogEnd())
	}
}

// wait advances the time by d, and waits until all goroutines of the bubble are idle.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fixture) wantReason(reason string) {
	f.t.Helper()
	if status := f.cleaner.Status(partition); status == nil || status.Reason != reason {
		f.t.Fatalf("status %+v, want reason %s", status, reason)
	}
}

// latest checks the offset of each key's last record, and returns the number of records in the log.
func (f *fixture) latest(want map[string]int64) int {
	f.t.Helper()
	found := map[string]int64{}
	records := readKeys(f.t, f.log, 0)
	for _, text := range records {
		var offset int64
		head, key, _ := strings.Cut(text, "=")
		_, _ = fmt.Sscan(head, &offset)
		found[key] = offset
	}
	for key, offset := range want {
		if found[key] != offset {
			f.t.Errorf("the latest record of %s is at %d, want %d", key, found[key], offset)
		}
	}
	return len(records)
}

// updatesOf returns n keys, which repeat the given number of different keys in turn, and each key's
// last index.
func updatesOf(n, keys int) (all []string, latest map[string]int64) {
	latest = map[string]int64{}
	for i := range n {
		key := fmt.Sprintf("k%d", i%keys)
		all, latest[key] = append(all, key), int64(i)
	}
	return all, latest
}

func TestDirtyLogIsCompacted(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		f.wantReason(reasonUpToDate)
		keys, latest := updatesOf(100, 5)
		f.put(keys...)
		wait(5 * time.Second)
		if n := f.latest(latest); n > 30 {
			t.Errorf("%d records are left of 100 of 5 keys", n)
		}
		status := f.cleaner.Status(partition)
		if status.DirtyBytes != 0 || status.CleanBytes == 0 {
			t.Errorf("%d dirty and %d clean bytes, want clean ones only", status.DirtyBytes,
				status.CleanBytes)
		}
		if status.Runs[runSuccess] == 0 || status.LastSuccess == nil {
			t.Errorf("status %+v, want a successful pass", status)
		}
		if status.RemovedRecords < 70 || status.ReclaimedBytes < 5000 {
			t.Errorf("%d records and %d bytes removed, want at least 70 and 5000",
				status.RemovedRecords, status.ReclaimedBytes)
		}
		if status.Phase != "idle" || status.ReclaimableBytes == nil {
			t.Errorf("status %+v, want idle with an estimate of the garbage", status)
		}
		f.wantReason(reasonActiveSegmentOnly)
	})
}

func TestI4PassWaitsForDirtyRatio(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		var keys []string
		for i := range 90 { // unique keys in about ten segments
			keys = append(keys, fmt.Sprintf("u%d", i))
		}
		f.put(keys...)
		wait(5 * time.Second)
		runs := f.cleaner.Status(partition).Runs
		if runs[runNothingToDo] != 1 || runs[runSuccess] != 0 {
			t.Fatalf("unique keys: runs %v, want one that has nothing to do", runs)
		}
		f.put(keys[:20]...)
		wait(5 * time.Second)
		status := f.cleaner.Status(partition)
		if status.Reason != reasonBelowDirtyRatio || status.DirtyRatio == 0 ||
			status.DirtyRatio > 0.5 || status.Runs[runSuccess] != 0 {
			t.Errorf("status %+v, want no pass", status)
		}
		if status.ReclaimableBytes != nil {
			t.Errorf("reclaimable is %d, want unknown", *status.ReclaimableBytes)
		}
		f.log.Configure(compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 0 }), true)
		wait(5 * time.Second)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] != 1 {
			t.Errorf("runs %v after the ratio was set to 0", runs)
		}
	})
}

func TestI5MaxLagOverridesDirtyRatio(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.MinDirtyPercent, s.MaxLag = 100, time.Hour
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(40, 5)
		f.put(keys...)
		wait(59 * time.Minute)
		f.wantReason(reasonBelowDirtyRatio)
		wait(2 * time.Minute)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 {
			t.Errorf("runs %v past maxLag", runs)
		}
		f.latest(latest)
	})
}

func TestMinLagIsReported(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.MinLag = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(40, 5)
		f.put(keys...)
		wait(5 * time.Second)
		f.wantReason(reasonMinLagNotReached)
		wait(time.Hour)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 {
			t.Errorf("runs %v past minLag", runs)
		}
	})
}

// TestI18IdleLogRemovesTombstones checks that the tombstones of an idle log are removed after their
// retention (I18). Kafka never removes such tombstones.
func TestI18IdleLogRemovesTombstones(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.put("gone", "kept")
		tombstone := storetest.Batch{Keys: []string{"gone"}, Timestamp: time.Now()}
		if _, err := f.log.Append(tombstone.Tombstones(t), time.Now()); err != nil {
			t.Fatal(err)
		}
		keys, _ := updatesOf(20, 3)
		f.put(keys...)
		wait(59 * time.Minute)
		if !f.has("gone") {
			t.Fatal("the tombstone was removed before its retention")
		}
		wait(2 * time.Minute)
		if f.has("gone") {
			t.Error("the tombstone of an idle log is not removed after its retention")
		}
	})
}

// TestIdleLogRemovesTombstonesDespiteRestarts checks that a restart does not restart the retention
// of a tombstone. Otherwise a broker that is restarted daily would never remove a tombstone.
func TestIdleLogRemovesTombstonesDespiteRestarts(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.put("gone")
		tombstone := storetest.Batch{Keys: []string{"gone"}, Timestamp: time.Now()}
		if _, err := f.log.Append(tombstone.Tombstones(t), time.Now()); err != nil {
			t.Fatal(err)
		}
		keys, _ := updatesOf(20, 3)
		f.put(keys...)
		for range 4 {
			wait(20 * time.Minute)
			f.restart()
		}
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess]+runs[runNothingToDo] != 0 {
			t.Errorf(
				"runs %v after all tombstones were removed and a restart, want none",
				runs,
			)
		}
		if f.has("gone") {
			t.Error("the tombstone is not removed after 80 minutes")
		}
		wait(2 * time.Hour)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess]+runs[runNothingToDo] != 0 {
			t.Errorf("runs %v of a log without garbage", runs)
		}
	})
}

func TestCleanerWithoutWorkersIsDisabled(t *testing.T) {
	inBubble(t, compacted(nil), Options{Workers: -1}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(40, 2)
		f.put(keys...)
		wait(time.Minute)
		f.wantReason(reasonCleanerDisabled)
		f.cleaner.Configure(Options{Logger: quiet()})
		wait(time.Minute)
		if runs := f.cleaner.Status(partition).Runs; runs[runSuccess] == 0 {
			t.Errorf("runs %v with a worker", runs)
		}
	})
}

func TestUncompactedLogHasNoStatus(t *testing.T) {
	inBubble(t, settings(nil), Options{}, func(t *testing.T, f *fixture) {
		f.put("a", "a")
		wait(time.Minute)
		if status := f.cleaner.Status(partition); status != nil {
			t.Errorf("status %+v", status)
		}
		if status := f.cleaner.Status(logstore.PartitionID{Topic: "nobody"}); status != nil {
			t.Errorf("status %+v of a missing log", status)
		}
	})
}
