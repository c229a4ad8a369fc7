package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

func directories(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestCreateReturnsExistingLog(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(nil))
	if again := createLog(t, store, settings(nil)); again != log {
		t.Error("the second Create returned another log")
	}
	if _, err := store.Create(partition, topicTwo, settings(nil), true); !errors.Is(err,
		ErrOtherTopic) {
		t.Errorf("another topic id: %v", err)
	}
	if log.TopicID() != topicOne || !log.Retain() {
		t.Errorf("topic %v, retain %t", log.TopicID(), log.Retain())
	}
}

func TestTopicAndPolicySurviveRestart(t *testing.T) {
	for _, retain := range []bool{true, false} {
		fsys := vfs.NewMem()
		store := openStore(t, fsys)
		if _, err := store.Create(partition, topicTwo, settings(nil), retain); err != nil {
			t.Fatal(err)
		}
		log := openStore(t, fsys.CrashClone()).Log(partition)
		if log == nil || log.TopicID() != topicTwo || log.Retain() != retain {
			t.Errorf("retain %t: after a crash %+v", retain, log)
		}
	}
}

// deleteReleased deletes the directories that the store's goroutine has not deleted yet.
func deleteReleased(s *Store) {
	for s.deleteNext() {
	}
}

func TestReleasedLogIsDeleted(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	fill(t, createLog(t, store, settings(nil)), 20)
	if err := store.Release(partition, false); err != nil {
		t.Fatal(err)
	}
	if store.Log(partition) != nil {
		t.Error("the log is still listed")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, fsys)
	deleteReleased(store)
	if names := directories(t, fsys); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	log := createLog(t, store, settings(nil))
	if log.LogEnd() != 0 || log.HighWatermark() != 0 {
		t.Errorf("a new log of the same name begins at %d", log.LogEnd())
	}
}

func TestRetainedLogIsReopenedWithNewTopicID(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	fill(t, log, 20)
	if err := log.compaction.Progress.SetFirstDirty(10); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	want := "tickets-0.01000000000000000000000000000000-retained"
	if names := directories(t, fsys); !slices.Equal(names, []string{want}) {
		t.Errorf("directories %v", names)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	store = openStore(t, fsys)
	if logs := store.Logs(); len(logs) > 0 {
		t.Errorf("a retained log is open: %v", logs[0].ID())
	}
	log, err := store.Create(partition, topicTwo, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 20)) {
		t.Errorf("read %v", got)
	}
	if log.TopicID() != topicTwo || log.HighWatermark() != 20 ||
		log.checkpointState().FirstDirty != 10 {
		t.Errorf("topic %v, %+v", log.TopicID(), log.checkpointState())
	}
	store.tick(epoch0, false)
	if _, err := fsys.Stat(filepath.Join(dataDir, partition.String(),
		datadir.RetainedFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file \"retained\" still exists: %v", err)
	}
}

func TestNewestRetainedLogIsReopened(t *testing.T) {
	synctest.Test(t, testNewestIsReopened)
}

func testNewestIsReopened(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	fill(t, log, 3)
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	old := directories(t, fsys)[0]
	hidden := filepath.Join(dataDir, "hidden")
	if err := fsys.Rename(filepath.Join(dataDir, old), hidden); err != nil {
		t.Fatal(err)
	}
	log, err := store.Create(partition, topicTwo, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, log, 5)
	time.Sleep(time.Millisecond)
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Rename(hidden, filepath.Join(dataDir, old)); err != nil {
		t.Fatal(err)
	}
	log, err = store.Create(partition, TopicID{3}, settings(nil), true)
	if err != nil || log.LogEnd() != 5 {
		t.Errorf("log end %d, %v", log.LogEnd(), err)
	}
}

// TestOfflineLogCanBeReleased checks that an offline log can be released, retained and reopened.
// Its segments are read as after an unclean shutdown, and a gap that cleaning may have left is not
// treated as lost data.
func TestOfflineLogCanBeReleased(t *testing.T) {
	mem := stopped(t, false)
	if err := mem.Remove(filepath.Join(dataDir, checkpoint.RecoveryPointFile)); err != nil {
		t.Fatal(err)
	}
	if err := segment.RemoveFiles(mem, filepath.Join(dataDir, partition.String()), 20,
		""); err != nil {
		t.Fatal(err)
	}
	fault := vfs.NewFault(mem)
	fault.Inject(vfs.Rule{Op: vfs.OpReadFile, Name: checkpoint.EpochsFile})
	store := openStore(t, fault)
	if store.Offline()[partition] == nil {
		t.Fatal("not offline")
	}
	fault.Clear()
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	log, err := store.Create(partition, topicTwo, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got,
		append(expectKeys(0, 20), expectKeys(30, 60)...)) {
		t.Errorf("read %v", got)
	}
}

func TestSliceSurvivesRelease(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(nil))
	fill(t, log, 5)
	slice, err := log.Read(0, 5, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Release(partition, false); err != nil {
		t.Fatal(err)
	}
	deleteReleased(store)
	if got := len(batchesOf(t, slice)); got != 5 {
		t.Errorf("%d batches", got)
	}
	slice.Release()
	if _, err := log.Read(0, 5, 1<<20, true); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after the release: %v", err)
	}
	if _, err := log.Append(keyed(t, "k"), epoch0); !errors.Is(err, ErrClosed) {
		t.Errorf("an append after the release: %v", err)
	}
}

// randomID matches the random id in the name of a directory whose deletion is pending.
var randomID = regexp.MustCompile(`\.[0-9a-f]{32}-delete`)

func TestReleaseTraces(t *testing.T) {
	for _, retain := range []bool{false, true} {
		trace := vfs.NewTrace(vfs.NewMem(), dataDir)
		store := openStore(t, trace)
		fill(t, createLog(t, store, settings(nil)), 5)
		store.tick(epoch0, false)
		close(store.stop)
		<-store.done // keeps background operations out of the trace
		trace.Take()
		if err := store.Release(partition, retain); err != nil {
			t.Fatal(err)
		}
		got := trace.Take() + "-- background\n"
		deleteReleased(store)
		got += trace.Take()
		if retain {
			if _, err := store.Create(partition, topicTwo, settings(nil), true); err != nil {
				t.Fatal(err)
			}
			got += "-- reopened\n" + trace.Take()
			store.tick(epoch0, false)
			got += "-- next checkpoints\n" + trace.Take()
		}
		golden(t, fmt.Sprintf("release-retain-%t.trace", retain),
			sizes.ReplaceAllString(randomID.ReplaceAllString(got, ".<id>-delete"), "0+<n>"))
		store.stop, store.done = make(chan struct{}), make(chan struct{})
		go store.run()
	}
}

// sizes matches the sizes of small text files in the trace. The sizes vary because the files
// contain times and ids.
var sizes = regexp.MustCompile(`0\+\d+`)

// TestCrashAtEveryStepOfRelease cuts the power at any step of Release or of the following Create.
// The log is then complete, retained or durably deleted, but never partly deleted.
func TestCrashAtEveryStepOfRelease(t *testing.T) {
	for _, retain := range []bool{false, true} {
		for step := 0; ; step++ {
			mem := vfs.NewMem()
			fault := vfs.NewFault(mem)
			store := openStore(t, fault)
			log := createLog(t, store, settings(nil))
			fill(t, log, 25)
			store.tick(epoch0, false)
			fault.Inject(vfs.Rule{Skip: step})
			err := store.Release(partition, retain)
			if err == nil && retain {
				_, err = store.Create(partition, topicTwo, settings(nil), true)
			}
			if err == nil {
				store.tick(epoch0, false)
				deleteReleased(store)
			}
			over := err == nil && !dead(fault)
			for seed := range uint64(4) {
				checkReleased(t, crash(mem, seed), retain,
					fmt.Sprintf("retain %t, step %d, seed %d", retain, step, seed))
			}
			fault.Clear()
			if over {
				break
			}
			if step > 500 {
				t.Fatal("the operation still fails when 500 steps succeed")
			}
		}
	}
}

// dead reports whether the injected fault is in effect, which makes all operations of the disk
// fail.
func dead(fault *vfs.Fault) bool {
	_, err := fault.Stat(dataDir)
	return err != nil
}

func checkReleased(t *testing.T, crashed *vfs.Mem, retain bool, what string) {
	t.Helper()
	store := openStore(t, crashed)
	defer store.Close()
	if causes := store.Offline(); len(causes) > 0 {
		t.Fatalf("%s: offline: %v", what, causes)
	}
	log := store.Log(partition)
	if log == nil {
		var err error
		if log, err = store.Create(partition, topicTwo, settings(nil), true); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !retain && log.LogEnd() == 0 {
			return
		}
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 25)) {
		t.Fatalf("%s: read %v", what, got)
	}
	if log.TopicID() != topicOne && log.TopicID() != topicTwo {
		t.Fatalf("%s: topic id %v", what, log.TopicID())
	}
}

func TestUnreadableDirectoryDoesNotAffectOthers(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	bad := PartitionID{Topic: "bad"}
	fill(t, createLog(t, store, settings(nil)), 5)
	if _, err := store.Create(bad, topicOne, settings(nil), true); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dataDir, "bad-0", checkpoint.EpochsFile),
		[]byte("9\n{}\n")); err != nil {
		t.Fatal(err)
	}
	if err := fsys.MkdirAll(filepath.Join(dataDir, "lost+found")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the checkpoints must still list the offline log in the second round
		store = openStore(t, fsys)
		if got := readKeys(t, store.Log(partition), 0); len(got) != 5 {
			t.Errorf("read %v", got)
		}
		if err := store.Offline()[bad]; !errors.Is(err, ErrStorage) || !errors.Is(err,
			checkpoint.ErrVersion) {
			t.Errorf("offline: %v", err)
		}
		if _, err := store.Create(bad, topicOne, settings(nil), true); !errors.Is(err, ErrStorage) {
			t.Errorf("create of an offline log: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		content, err := fsys.ReadFile(filepath.Join(dataDir, checkpoint.RecoveryPointFile))
		if err != nil || !strings.Contains(string(content), "bad 0 0\n") {
			t.Errorf("%q, %v", content, err)
		}
	}
	if _, err := fsys.Stat(filepath.Join(dataDir, "lost+found")); err != nil {
		t.Errorf("an unknown directory was touched: %v", err)
	}
}

func TestSecondStoreIsRejected(t *testing.T) {
	fsys := vfs.NewMem()
	openStore(t, fsys)
	if _, err := Open(Options{FS: fsys, Dir: dataDir, Logger: quiet()}); !errors.Is(err,
		vfs.ErrLocked) {
		t.Errorf("got %v", err)
	}
}

// reopenUnlisted reopens a retained log as Create does, but stops before the checkpoints list the
// log.
func reopenUnlisted(t *testing.T, store *Store) {
	t.Helper()
	dirs, err := store.newestRetainedDirs()
	if err == nil {
		err = store.makeDirectoryOf(LogSpec{ID: partition, Topic: topicOne, Retain: true},
			dirs[partition])
	}
	if err == nil {
		err = store.opts.FS.SyncDir(dataDir)
	}
	if err == nil {
		_, _, err = store.recover(partition,
			start{saved: checkpoint.State{RecoveryPoint: checkpoint.UnknownOffset}, clean: true})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// releaseAndReopen releases a log of 50 records with the first dirty offset 20, and reopens it with
// reopenUnlisted.
func releaseAndReopen(t *testing.T, mem *vfs.Mem) *Store {
	t.Helper()
	store, log := swapLog(t, mem)
	if err := errors.Join(log.compaction.Progress.SetFirstDirty(20),
		store.Release(partition, true)); err != nil {
		t.Fatal(err)
	}
	reopenUnlisted(t, store)
	return store
}

// checkReopened opens the disk as after a crash, and checks that the log from releaseAndReopen has
// kept its offsets.
func checkReopened(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	log := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if log.HighWatermark() != 50 || log.checkpointState().FirstDirty != 20 {
		t.Errorf("after a crash: %+v, first dirty %d", log.Stats(),
			log.checkpointState().FirstDirty)
	}
}

// TestCheckpointsDuringReopenKeepRetainedFile writes checkpoints that do not list a log yet, while
// the log is being reopened. The log's file "retained" must stay until the checkpoints list the
// log.
func TestCheckpointsDuringReopenKeepRetainedFile(t *testing.T) {
	mem := vfs.NewMem()
	store := releaseAndReopen(t, mem)
	if err := store.save(); err != nil {
		t.Fatal(err)
	}
	checkReopened(t, mem)
}

// TestOfflineLogKeepsItsRetainedFile checks that if the next start cannot open a reopened log, the
// log keeps its file "retained", which contains its offsets.
func TestOfflineLogKeepsItsRetainedFile(t *testing.T) {
	mem := vfs.NewMem()
	releaseAndReopen(t, mem)
	mem = mem.CrashClone()
	fault := vfs.NewFault(mem)
	fault.Inject(vfs.Rule{Op: vfs.OpOpen, Name: "*.log"})
	offline := openStore(t, fault)
	if offline.Offline()[partition] == nil {
		t.Fatal("the log is not offline")
	}
	if err := offline.save(); err != nil {
		t.Fatal(err)
	}
	checkReopened(t, mem)
}

// TestCreateReusesDirectoryOfFailedCreate makes Create fail after its commit point. A second Create
// then uses the same directory, and does not touch older retained directories.
func TestCreateReusesDirectoryOfFailedCreate(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	for _, n := range []int{3, 5} {
		fill(t, createLog(t, store, settings(nil)), n)
		// Rename the directory to make it seem to belong to another topic id. Otherwise a second
		// Create with the same topic id would reopen it.
		if n == 3 {
			if err := store.Release(partition, true); err != nil {
				t.Fatal(err)
			}
			old := filepath.Join(dataDir, datadir.ReleasedName(partition, topicOne, datadir.RetainedSuffix))
			if err := mem.Rename(old,
				filepath.Join(dataDir, datadir.ReleasedName(partition, topicTwo, datadir.RetainedSuffix))+
					".hidden"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(dataDir, datadir.ReleasedName(partition, topicTwo, datadir.RetainedSuffix))
	if err := mem.Rename(hidden+".hidden", hidden); err != nil {
		t.Fatal(err)
	}
	fault.Inject(vfs.Rule{Op: vfs.OpOpen, Name: "*.log", Times: 1})
	if _, err := store.Create(partition, topicOne, settings(nil), true); !errors.Is(err,
		ErrStorage) {
		t.Fatalf("create: %v", err)
	}
	log := createLog(t, store, settings(nil))
	if got := readKeys(t, log, 0); len(got) != 5 {
		t.Errorf("read %v", got)
	}
}
