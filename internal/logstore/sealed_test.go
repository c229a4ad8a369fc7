package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/vfs"
)

// openingDisk is a filesystem that records which files are opened.
type openingDisk struct {
	vfs.FS
	mu     sync.Mutex
	opened []string
}

func (d *openingDisk) note(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = append(d.opened, filepath.Base(name))
}

func (d *openingDisk) Open(name string) (vfs.File, error) {
	d.note(name)
	return d.FS.Open(name)
}

func (d *openingDisk) OpenReadWrite(name string) (vfs.File, error) {
	d.note(name)
	return d.FS.OpenReadWrite(name)
}

// TestStartAfterCleanShutdownReadsCheckpointsOnly checks that a start after a clean shutdown opens
// no data file and no index, because the checkpoints contain everything that it needs. Reads and
// appends work afterwards.
func TestStartAfterCleanShutdownReadsCheckpointsOnly(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	if err := log.Lead(1); err != nil {
		t.Fatal(err)
	}
	fill(t, log, 55)
	before := log.Stats()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	disk := &openingDisk{FS: mem}
	store = openStore(t, disk)
	log = createLog(t, store, settings(nil))
	if len(disk.opened) > 0 {
		t.Errorf("opened %v", disk.opened)
	}
	if after := log.Stats(); after != before || store.handles.Open() != 0 {
		t.Errorf("%+v, was %+v; %d files are open", after, before, store.handles.Open())
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 55)) {
		t.Errorf("read %v", got)
	}
	fill(t, log, 25)
	if result, ok, err := log.Timestamps().First(epoch0.UnixMilli(), log.LogEnd()); err != nil ||
		!ok ||
		result.Offset != 0 {
		t.Errorf("lookup: %+v, %t, %v", result, ok, err)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 80)) {
		t.Errorf("appended: read %v", got)
	}
	crashed := createLog(t, openStore(t, mem.CrashClonePartly(3)), settings(nil))
	if got := readKeys(t, crashed, 0); len(got) < 55 ||
		!slices.Equal(got, expectKeys(0, crashed.LogEnd())) {
		t.Errorf("after a crash: read %v", got)
	}
}

// TestOutdatedSummaryIsNotUsed changes files of a segment after a clean shutdown. The start does
// not use the segment's summary, but reads its files. It reads the files of all segments if the
// summaries are missing or damaged.
func TestOutdatedSummaryIsNotUsed(t *testing.T) {
	for name, touch := range map[string]func(*vfs.Mem) error{
		"an index is gone": func(m *vfs.Mem) error {
			return m.Remove(dataDir +
				"/tickets-0/00000000000000000010.index")
		},
		"another time": func(m *vfs.Mem) error {
			return m.Chtimes(dataDir+"/tickets-0/00000000000000000010.log", time.Unix(5, 0))
		},
		"another size": func(m *vfs.Mem) error {
			return vfs.WriteFileAtomic(m, dataDir+"/tickets-0/00000000000000000020.timeindex",
				make([]byte, 5))
		},
		"no summary": func(m *vfs.Mem) error {
			return m.Remove(dataDir + "/" +
				checkpoint.SegmentsFile)
		},
		"another version": func(m *vfs.Mem) error {
			return vfs.WriteFileAtomic(m,
				dataDir+"/"+checkpoint.SegmentsFile, []byte("9\n0\n"))
		},
		"a wrong end": func(m *vfs.Mem) error {
			content, err := m.ReadFile(dataDir + "/" + checkpoint.SegmentsFile)
			changed := strings.Replace(string(content), "tickets 0 10 20", "tickets 0 10 10", 1)
			return errors.Join(err,
				vfs.WriteFileAtomic(m, dataDir+"/"+checkpoint.SegmentsFile, []byte(changed)))
		},
		"a flipped bit": func(m *vfs.Mem) error {
			content, err := m.ReadFile(dataDir + "/" + checkpoint.SegmentsFile)
			// This wrong end offset contradicts no file size or file time.
			changed := strings.Replace(string(content), "tickets 0 50 60", "tickets 0 50 62", 1)
			if changed == string(content) {
				t.Errorf("no such line in %s", content)
			}
			return errors.Join(err,
				vfs.WriteFileAtomic(m, dataDir+"/"+checkpoint.SegmentsFile, []byte(changed)))
		},
	} {
		mem := stopped(t, true)
		if err := touch(mem); err != nil {
			t.Fatal(name, err)
		}
		log := createLog(t, openStore(t, mem), settings(nil))
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 60)) {
			t.Errorf("%s: read %v", name, got)
		}
	}
}

// TestRecordsOfFailedSyncAreSyncedAfterRestart checks a failed sync after which the kernel drops
// the pages that it could not write. The process starts again without a reboot, so the page cache
// still contains the records. The records that recovery then reports as durable must be on disk. A
// sync alone would succeed without writing them.
func TestRecordsOfFailedSyncAreSyncedAfterRestart(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	signal := durableSignal(store)
	log := createLog(t, store, settings(fsync))
	for range 13 { // fills two segments
		fill(t, log, 1)
		awaitDurable(t, log, signal)
	}
	store.tick(epoch0, false)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.log"})
	for range 4 {
		if _, err := log.Append(keyed(t, fmt.Sprintf("k%d", log.LogEnd())), epoch0); err != nil {
			break // the log has stopped
		}
	}
	awaitDurable(t, log, signal)
	end := log.LogEnd()
	if log.Fault() == nil || end < 14 {
		t.Fatalf("the log did not stop; it ends at %d", end)
	}
	_ = store.Close() // returns the failure of the sync
	fault.Clear()
	if err := mem.LoseUnsynced(log.dir + "/00000000000000000010.log"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		again := createLog(t, openStoreOnce(t, mem), settings(fsync))
		if got := readKeys(t, again, 0); again.DurableEnd() != end ||
			!slices.Equal(got, expectKeys(0, end)) {
			t.Fatalf("start %d: durable end %d of %d; read %v", round, again.DurableEnd(), end, got)
		}
		mem = mem.CrashClone()
	}
}

// openStoreOnce opens a store that the test itself does not close (t.Cleanup does), so during the
// test the disk looks as it would after a crash.
func openStoreOnce(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open(Options{FS: fsys, Dir: dataDir, Logger: quiet(), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTailThatCannotBeRewrittenIsNotDurable checks a recovery that cannot rewrite the end of the
// log, because the disk is full. The log can be opened, but reports the records at its end as
// durable only after they were rewritten.
func TestTailThatCannotBeRewrittenIsNotDurable(t *testing.T) {
	mem := vfs.NewMem()
	log := createLog(t, openStore(t, mem), settings(fsync))
	fill(t, log, 5)
	mem = mem.CrashClonePartly(2)
	fault := vfs.NewFault(mem)
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	store := openStore(t, fault)
	log = createLog(t, store, settings(fsync))
	end := log.LogEnd()
	if log.DurableEnd() > 0 {
		t.Errorf("durable end %d of %d", log.DurableEnd(), end)
	}
	store.tick(epoch0, false)
	if log.Fault() != nil || log.DurableEnd() > 0 {
		t.Errorf("after a tick on the full disk: %v, durable end %d", log.Fault(), log.DurableEnd())
	}
	fault.Clear()
	store.tick(epoch0, false)
	if log.DurableEnd() != end {
		t.Errorf("after space was freed: durable end %d of %d", log.DurableEnd(), end)
	}
	if crashed := createLog(t, openStore(t, mem.CrashClone()),
		settings(fsync)); crashed.LogEnd() != end {
		t.Errorf("after a crash the log ends at %d, want %d", crashed.LogEnd(), end)
	}
}

// TestManyLogsAreCreatedWithOneCheckpoint checks that CreateAll writes the checkpoints once,
// however many logs it creates.
func TestManyLogsAreCreatedWithOneCheckpoint(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	store := openStore(t, trace)
	trace.Take()
	var specs []LogSpec
	for i := range int32(50) {
		specs = append(specs,
			LogSpec{ID: PartitionID{Topic: "many", Index: i}, Topic: topicOne,
				Settings: settings(nil)})
	}
	created := store.CreateAll(append(specs,
		LogSpec{ID: PartitionID{Topic: "many", Index: 50}, Topic: topicOne,
			Settings: settings(nil)}))
	for i, m := range created {
		if m.Err != nil || m.Log.ID() != (PartitionID{Topic: "many", Index: int32(i)}) {
			t.Errorf("%d: %v", i, m.Err)
		}
	}
	lines := trace.Take()
	written := strings.Count(lines, "-> "+checkpoint.RecoveryPointFile)
	listed := strings.LastIndex(lines, "-> "+checkpoint.RecoveryPointFile)
	if last := strings.LastIndex(lines, datadir.PartitionFile); written != 1 || listed < last {
		t.Errorf("recovery points written %d times, want 1; last write at %d of the trace, last "+
			"topic id at %d", written, listed, last)
	}
	if again := store.CreateAll(specs); again[7].Log != created[7].Log || trace.Take() != "" {
		t.Error("existing logs were created again")
	}
}
