package logstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestCrashDuringRetentionKeepsProducers checks a crash that restores the third of three segments
// that retention has deleted. This segment has no producer snapshot at its base offset, because
// recovery once scanned it. The start must still know the producers whose batches were in the
// deleted segments. (Seed 3000962 of TestCrashes found this.)
func TestCrashDuringRetentionKeepsProducers(t *testing.T) {
	mem := vfs.NewMem()
	var crashed *vfs.Mem
	var third string
	disk := newCrashDisk(mem, func(what, name string) {
		if crashed == nil && what == "rename" && third != "" &&
			strings.Contains(name, third) && !strings.Contains(name, swap.SnapshotSuffix) {
			crashed = mem.CrashClone()
		}
	})
	store := openStore(t, disk)
	log := createLog(t, store, settings(nil))
	first := storetest.Batch{Producer: 7, Keys: []string{"first"}}
	appendBatch(t, log, first.Bytes(t))
	fill(t, log, 50)
	store.tick(epoch0, false)
	all := bases(log)
	if len(all) < 4 {
		t.Fatalf("segments %v", all)
	}
	damageAll(t, mem, swap.SnapshotSuffix, func([]byte) []byte { return nil })
	third = strings.TrimSuffix(segment.Name(all[2], segment.LogExtension, ""), segment.LogExtension)
	log.maintain.Lock()
	err := deleteFront(log, 3)
	log.maintain.Unlock()
	if err != nil || crashed == nil {
		t.Fatalf("%v; crashed %t", err, crashed != nil)
	}
	// Without recovery points, recovery scans every segment, and uses no snapshot above the first
	// segment.
	if err := crashed.Remove(filepath.Join(dataDir, checkpoint.RecoveryPointFile)); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, crashed), settings(nil))
	if again.LogStart() != all[2] {
		t.Fatalf("the log begins at %d, want %d", again.LogStart(), all[2])
	}
	if got := appendBatch(t, again, first.Bytes(t)); !got.Duplicate || got.BaseOffset != 0 {
		t.Errorf("the producer's batch sent again: %+v", got)
	}
}

// producersIn returns the producers in a snapshot of a log that begins at start, without the times
// at which they were seen, and without the epochs of markers.
func producersIn(t *testing.T, fsys vfs.FS, f swap.File, start int64) []producer.Info {
	t.Helper()
	content, err := fsys.ReadFile(filepath.Join(dataDir, partition.String(), f.Name))
	if err != nil {
		t.Fatal(err)
	}
	state, err := producer.Decode(content, f.Base)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	state.SetLogStart(start)
	infos := state.Producers()
	for i := range infos {
		infos[i].LastSeen, infos[i].CoordinatorEpoch = time.Time{}, 0
	}
	return infos
}

// deleteSegments deletes segments at the front of a log.
func deleteSegments(t *testing.T, log *Log, count int) {
	t.Helper()
	log.maintain.Lock()
	defer log.maintain.Unlock()
	if err := deleteFront(log, count); err != nil {
		t.Fatal(err)
	}
}

// snapshotFiles returns the snapshots of the log.
func snapshotFiles(t *testing.T, log *Log) []swap.File {
	t.Helper()
	files, err := log.files.List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files,
		func(f swap.File) bool { return f.Kind != swap.SnapshotSuffix })
}

// TestDamagedSnapshotsAreComputedAgain damages all snapshots at once, and then each one alone.
// Retention has deleted the batches of producers 7 and 9, so only the snapshots and the state in
// memory contain these producers. The recomputed snapshots contain the same producers and the open
// transaction of producer 11, and after a crash a start detects duplicate batches.
func TestDamagedSnapshotsAreComputedAgain(t *testing.T) {
	for _, alone := range []bool{false, true} {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		log := createLog(t, store, settings(nil))
		old := storetest.Batch{Producer: 7, Keys: []string{"old"}}
		if _, err := log.Append(old.Bytes(t), time.Now()); err != nil { // so it does not expire
			t.Fatal(err)
		}
		inTxn(t, log, 9, 0, "b")
		fill(t, log, 20)
		endTxn(t, log, 9, false)
		inTxn(t, log, 11, 0, "c")
		for i := range int32(30) {
			appendBatch(t, log, storetest.Batch{Producer: 13, Sequence: i,
				Keys: []string{"d"}}.Bytes(t))
		}
		store.tick(epoch0, false)
		deleteSegments(t, log, 1)
		files := snapshotFiles(t, log)
		if len(files) < 4 || files[0].Base != bases(log)[0] {
			t.Fatalf("snapshots %v, segments %v", files, bases(log))
		}
		want := map[string][]producer.Info{}
		for _, f := range files {
			want[f.Name] = producersIn(t, mem, f, log.LogStart())
		}
		if !alone {
			damageAll(t, mem, swap.SnapshotSuffix, func(b []byte) []byte { return b[:len(b)-1] })
		}
		for _, f := range files {
			if alone {
				damage(t, mem, f.Name, func(b []byte) []byte { return b[:len(b)-1] })
			}
			if err := (SmallFiles{log}).Rewrite(f.Name); err != nil {
				t.Fatal(err)
			}
			if got := producersIn(t, mem, f, log.LogStart()); !reflect.DeepEqual(got, want[f.Name]) {
				t.Errorf("%s: %+v\nwant %+v", f.Name, got, want[f.Name])
			}
		}
		again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
		if got := appendBatch(t, again, old.Bytes(t)); !got.Duplicate || got.BaseOffset != 0 {
			t.Errorf("the batch of producer 7 sent again: %+v", got)
		}
	}
}

// TestDamagedSnapshotInFrontOfTheLogIsRemoved checks that a damaged snapshot is removed if no start
// would use it.
func TestDamagedSnapshotInFrontOfTheLogIsRemoved(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	fill(t, log, 50)
	store.tick(epoch0, false)
	deleteSegments(t, log, 2)
	for _, offset := range []int64{3, log.LogEnd() + 5} {
		if err := log.snapshots.Write(offset, []byte("damaged")); err != nil {
			t.Fatal(err)
		}
		name := segment.Name(offset, swap.SnapshotSuffix, "")
		if err := (SmallFiles{log}).Rewrite(name); err != nil {
			t.Fatal(err)
		}
		if _, err := mem.Stat(filepath.Join(log.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was not removed: %v", name, err)
		}
	}
}
