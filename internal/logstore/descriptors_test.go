package logstore

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestIdleStoreHasNoSegmentFileOpen appends to several logs, rolls them and reads them. After some
// idle time no file is open, and every record can be read.
func TestIdleStoreHasNoSegmentFileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(Options{FS: vfs.NewMem(), Dir: dataDir, Logger: quiet(),
			indexEntriesMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var logs []*Log
		for i := range int32(20) {
			log, err := store.Create(PartitionID{Topic: "tickets", Index: i}, topicOne,
				settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 }), false)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, log)
			fill(t, log, 80) // more than one index interval
			rollNow(t, log)
			fill(t, log, 80)
		}
		if store.handles.Open() < len(logs) {
			t.Fatalf("%d files are open before the logs are idle", store.handles.Open())
		}
		time.Sleep(4 * idleFilesInterval)
		synctest.Wait()
		if open := store.handles.Open(); open != 0 {
			t.Errorf("%d files are open after the logs were idle, want none", open)
		}
		for _, log := range logs {
			log.AdvanceHighWatermark(log.LogEnd())
			if got := len(readKeys(t, log, 0)); got != 160 {
				t.Errorf("%s has %d records, want 160", log.ID(), got)
			}
			appendBatch(t, log, keyed(t, "k"))
		}
		time.Sleep(4 * idleFilesInterval)
		synctest.Wait()
		if open := store.handles.Open(); open != 0 {
			t.Errorf("%d files are open after the second idle time, want none", open)
		}
	})
}

func TestPartitionsWarningIsRepeatedHourly(t *testing.T) {
	var w partitionsWarning
	now := epoch0
	for _, c := range []struct {
		after time.Duration
		logs  int
		limit uint64
		due   bool
	}{
		{0, 500, 1000, false},
		{time.Second, 501, 1000, true},
		{time.Second, 900, 1000, false},
		{time.Hour, 900, 1000, true},
		{time.Hour, 400, 1000, false},
		{2 * time.Hour, 9000, 0, false}, // the limit is unknown
		{2 * time.Hour, 9000, 1 << 63, false},
		{2 * time.Hour, 9000, 10_000, true},
	} {
		now = now.Add(c.after)
		if due := w.due(now, c.logs, c.limit); due != c.due {
			t.Errorf("%d logs of limit %d, %s later: due %t", c.logs, c.limit, c.after, due)
		}
	}
}

// slowIndexes is a disk on which the sync of an index file takes indexSyncTime.
type slowIndexes struct{ vfs.FS }

const indexSyncTime = 200 * time.Millisecond

func (d slowIndexes) Create(name string) (vfs.File, error) { return slowIndex(d.FS.Create(name)) }

func (d slowIndexes) OpenReadWrite(name string) (vfs.File, error) {
	return slowIndex(d.FS.OpenReadWrite(name))
}

func slowIndex(file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(filepath.Ext(file.Name()), "index") {
		return file, err
	}
	return slowIndexFile{file}, nil
}

type slowIndexFile struct{ vfs.File }

func (f slowIndexFile) Sync() error {
	time.Sleep(indexSyncTime)
	return f.File.Sync()
}

// TestIdleIndexesDoNotDelayFlushes uses many segments with unsynced indexes on a slow disk, as
// after a crash. While those indexes are synced, the records of another log are still flushed in
// time. At the end no file of an idle log is open.
func TestIdleIndexesDoNotDelayFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(Options{FS: slowIndexes{vfs.NewMem()}, Dir: dataDir, Logger: quiet(),
			indexEntriesMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		create := func(index int32) *Log {
			log, err := store.Create(PartitionID{Topic: "tickets", Index: index}, topicOne,
				settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 }), false)
			if err != nil {
				t.Fatal(err)
			}
			return log
		}
		for i := range int32(200) {
			fill(t, create(i), 80) // more than one index interval
		}
		busy := create(200)
		const step, flushedWithin = 100 * time.Millisecond, 2500 * time.Millisecond
		began := time.Now()
		var longest time.Duration
		for unflushed := began; time.Since(began) < 2*time.Minute; time.Sleep(step) {
			busy.mu.Lock()
			flushed := busy.disk.RecoveryPointLocked() == busy.LogEnd()
			busy.mu.Unlock()
			if flushed {
				unflushed = time.Now()
				appendBatch(t, busy, keyed(t, "k"))
			}
			longest = max(longest, time.Since(unflushed))
		}
		if longest > flushedWithin {
			t.Errorf("a record was flushed after %v, want at most %v", longest, flushedWithin)
		}
		if open := store.handles.Open(); open > 3 {
			t.Errorf("%d files are open, want those of the busy log only", open)
		}
	})
}
