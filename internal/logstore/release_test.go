package logstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// createLogs creates partitions of a topic, each with some unsynced records.
func createLogs(t *testing.T, store *Store, topic string, count int) (removals []Removal) {
	t.Helper()
	for i := range count {
		id := PartitionID{Topic: topic, Index: int32(i)}
		log, err := store.Create(id, topicOne, settings(nil), true)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, log, 5)
		removals = append(removals, Removal{ID: id, Retain: i%4 == 3})
	}
	return removals
}

// TestReleaseOfManyLogsSyncsOnce checks that the number of ReleaseAll's syncs does not depend on
// the number of logs whose data is deleted.
func TestReleaseOfManyLogsSyncsOnce(t *testing.T) {
	syncs := map[int]int{}
	for _, count := range []int{1, 40} {
		trace := vfs.NewTrace(vfs.NewMem(), dataDir)
		store := openStore(t, trace)
		removals := createLogs(t, store, "doomed", count)
		for i := range removals {
			removals[i].Retain = false
		}
		store.tick(epoch0, false) // writes checkpoints of all logs
		for _, r := range removals {
			fill(t, store.Log(r.ID), 5)
		}
		close(store.stop)
		<-store.done // keeps background operations out of the trace
		trace.Take()
		if err := store.ReleaseAll(removals); err != nil {
			t.Fatal(err)
		}
		got := trace.Take()
		syncs[count] = strings.Count(got, "sync")
		if strings.Contains(got, "sync doomed") || len(store.Logs()) != 0 {
			t.Errorf("%d logs: %d remain, trace:\n%s", count, len(store.Logs()), got)
		}
		store.stop, store.done = make(chan struct{}), make(chan struct{})
		go store.run()
	}
	if syncs[1] == 0 || syncs[1] != syncs[40] {
		t.Errorf("syncs by number of logs: %v, want equal numbers", syncs)
	}
}

// TestReleaseOfManyLogsKeepsAndDeletes releases logs to retain, logs to delete and an unknown log
// together. After a crash the retained logs are complete.
func TestReleaseOfManyLogsKeepsAndDeletes(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	removals := append(createLogs(t, store, "mixed", 8), Removal{ID: PartitionID{Topic: "unknown"}})
	if err := store.ReleaseAll(removals); err != nil {
		t.Fatal(err)
	}
	crashed := openStore(t, mem.CrashClone())
	for _, r := range removals[:8] {
		log, err := crashed.Create(r.ID, topicTwo, settings(nil), true)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: 5, false: 0}[r.Retain]; log.LogEnd() != want {
			t.Errorf("%s: log end %d, want %d", r.ID, log.LogEnd(), want)
		}
	}
}

// TestFailedRenameKeepsOneLogOffline checks that if one log's directory cannot be renamed, this
// partition is offline until another release, and the other partitions are removed.
func TestFailedRenameKeepsOneLogOffline(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	store := openStore(t, fault)
	removals := createLogs(t, store, "doomed", 3)
	fault.Inject(vfs.Rule{Op: vfs.OpRename, Name: "doomed-1"})
	err := store.ReleaseAll(removals)
	if offline := store.Offline(); !errors.Is(err, ErrStorage) || len(offline) != 1 ||
		offline[removals[1].ID] == nil || len(store.Logs()) != 0 {
		t.Errorf("error %v, offline %v, %d logs", err, offline, len(store.Logs()))
	}
	fault.Clear()
	if err := store.ReleaseAll(removals); err != nil || len(store.Offline()) != 0 {
		t.Errorf("another release: %v, offline %v", err, store.Offline())
	}
}

// TestDeletionOfDirectoriesDoesNotDelayFlushes checks that other logs can be flushed and released
// while a directory is being deleted.
func TestDeletionOfDirectoriesDoesNotDelayFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem())
		store, err := Open(Options{FS: fault, Dir: dataDir, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		done := make(chan struct{})
		fault.Inject(vfs.Rule{Op: vfs.OpRemoveAll, Times: 1, Until: done})
		log := createLog(t, store, settings(nil))
		for i := range 2 {
			removals := createLogs(t, store, fmt.Sprint("doomed", i), 3)
			if err := store.ReleaseAll(removals); err != nil {
				t.Fatal(err)
			}
			fill(t, log, 5)
			time.Sleep(2 * flushIntervalDefault)
			if synced := log.disk.Synced(); synced != log.LogEnd() {
				t.Errorf("round %d: synced to %d of %d while a directory is being deleted", i,
					synced, log.LogEnd())
			}
		}
		close(done)
	})
}
