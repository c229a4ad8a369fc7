package logstore

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// fullTable is the filesystem of a process without a free file descriptor: while none is set, every
// open of a file fails with EMFILE.
type fullTable struct {
	vfs.FS
	none atomic.Bool
}

func (d *fullTable) OpenReadWrite(name string) (vfs.File, error) {
	if d.none.Load() {
		return nil, &pathFault{name}
	}
	return d.FS.OpenReadWrite(name)
}

type pathFault struct{ name string }

func (e *pathFault) Error() string { return e.name + ": too many open files" }
func (e *pathFault) Unwrap() error { return syscall.EMFILE }

// TestNoFileDescriptorsLeft checks a process without a free file descriptor, for example because
// connections use all of them. Operations that have to open a file fail, and succeed once
// descriptors are free again. The log does not stop, because a stopped log would stay offline until
// the process is restarted.
func TestNoFileDescriptorsLeft(t *testing.T) {
	disk := &fullTable{FS: vfs.NewMem()}
	open := func() *Store {
		store, err := Open(Options{FS: disk, Dir: dataDir, Logger: quiet(),
			FlushInterval: time.Hour, OpenFilesMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	fill(t, createLog(t, store, settings(nil)), 25)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open() // without an open segment file
	t.Cleanup(func() { _ = store.Close() })
	log := createLog(t, store, settings(fsync))
	fails := func(what string, do func() error) {
		t.Helper()
		disk.none.Store(true)
		err := do()
		disk.none.Store(false)
		if !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.EMFILE) || log.Fault() != nil {
			t.Fatalf("%s: got %v, want ErrStorage and EMFILE; fault of the log: %v", what, err,
				log.Fault())
		}
		if err := do(); err != nil {
			t.Fatalf("%s, with file descriptors again: %v", what, err)
		}
	}
	// Read from the first segment. Because OpenFilesMax is 1, this read closes the active segment's
	// data file if that file is open.
	first, err := log.Read(0, 1, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	fails("an append", func() error {
		_, err := log.Append(keyed(t, "k25"), epoch0)
		return err
	})
	fails("a read", func() error {
		slice, err := log.Read(12, 26, 100, true)
		if err == nil {
			slice.Release()
		}
		return err
	})
	// The appends roll the log. Nothing was written to the index files yet, so these files are not
	// open, and the flush has to open them.
	for range 20 {
		appendBatch(t, log, keyed(t, "k"))
	}
	fails("a flush", log.disk.Flush)
	if log.DurableEnd() != log.LogEnd() {
		t.Errorf("durable end %d of %d", log.DurableEnd(), log.LogEnd())
	}
	log.AdvanceHighWatermark(log.LogEnd())
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionBytes = 0 }), false)
	fails("retention", func() error { return log.applyRetention(epoch0) })
	if got := bases(log); len(got) != 1 || log.LogStart() != got[0] {
		t.Errorf("segments %v, log start %d", got, log.LogStart())
	}
}

// fewFiles is the filesystem of a process that may have max files open, including directories. It
// needs no lock, because the store's background goroutine is idle during the test.
type fewFiles struct {
	vfs.FS
	open, max int
}

func (d *fewFiles) afford(name string) error {
	if d.open >= d.max {
		return &pathFault{name}
	}
	return nil
}

func (d *fewFiles) opened(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := d.afford(name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	d.open++
	return &fewFile{file, d}, nil
}

func (d *fewFiles) Open(name string) (vfs.File, error)   { return d.opened(name, d.FS.Open) }
func (d *fewFiles) Create(name string) (vfs.File, error) { return d.opened(name, d.FS.Create) }
func (d *fewFiles) OpenReadWrite(name string) (vfs.File, error) {
	return d.opened(name, d.FS.OpenReadWrite)
}

func (d *fewFiles) SyncDir(name string) error {
	if err := d.afford(name); err != nil {
		return err
	}
	return d.FS.SyncDir(name)
}

func (d *fewFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.afford(name); err != nil {
		return nil, err
	}
	return d.FS.ReadDir(name)
}

type fewFile struct {
	vfs.File
	fewFiles *fewFiles
}

func (f *fewFile) Close() error {
	f.fewFiles.open--
	return f.File.Close()
}

// TestTruncationWithFewFileDescriptors truncates a log, or empties it with StartAt, with each
// possible number of free file descriptors, starting with 0. The operation either succeeds or
// changes nothing: TruncateTo opens the files that it needs before it renames the first file, and
// StartAt reverts its renames.
func TestTruncationWithFewFileDescriptors(t *testing.T) {
	const spareMax = 40
	for name, truncation := range map[string]struct {
		do  func(*Log) error
		end int64
	}{
		"truncate": {func(log *Log) error { return log.TruncateTo(15) },
			15},
		"start at an offset above the end": {func(log *Log) error { return log.StartAt(100) }, 100},
		"start at a lower offset":          {func(log *Log) error { return log.StartAt(7) }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			for spare := range spareMax {
				if truncateWithFewFiles(t, spare, truncation.do, truncation.end) {
					made++
				}
			}
			if made == 0 || made == spareMax {
				t.Errorf(
					"truncation succeeded with %d of the first %d numbers of file descriptors, "+
						"want some but not all", made, spareMax)
			}
		})
	}
}

// truncateWithFewFiles truncates a log when only spare file descriptors are free, and again with
// plenty of descriptors. It reports whether the first truncation succeeded.
func truncateWithFewFiles(t *testing.T, spare int, truncate func(*Log) error,
	end int64) (made bool) {
	t.Helper()
	const filled = 45
	disk := &fewFiles{FS: vfs.NewMem(), max: 1000}
	opts := Options{FS: disk, Dir: dataDir, Logger: quiet(), FlushInterval: time.Hour,
		OpenFilesMax: 1}
	store, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, createLog(t, store, settings(nil)), filled)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = Open(opts); err != nil { // without an open segment file
		t.Fatal(err)
	}
	log := createLog(t, store, settings(nil))
	disk.max = disk.open + spare
	err = truncate(log)
	disk.max = 1000
	switch {
	case log.Fault() != nil:
		t.Errorf("with %d files left the log has stopped: %v", spare, log.Fault())
		_ = store.Close()
		return false
	case err != nil && (!errors.Is(err, ErrStorage) || !errors.Is(err, syscall.EMFILE) ||
		log.LogEnd() != filled):
		t.Errorf("with %d files left: %v, the log ends at %d", spare, err, log.LogEnd())
	}
	if again := truncate(log); again != nil || log.LogEnd() != end {
		t.Errorf("with %d files left before, and enough now: %v, the log ends at %d", spare, again,
			log.LogEnd())
	}
	appendBatch(t, log, keyed(t, "next"))
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestFailedRenameLeavesNoFileOpen checks that if renaming a segment fails because one of its files
// cannot be opened, its other files do not stay open.
func TestFailedRenameLeavesNoFileOpen(t *testing.T) {
	disk := &fullTable{FS: vfs.NewMem()}
	opts := Options{FS: disk, Dir: dataDir, Logger: quiet(), FlushInterval: time.Hour,
		OpenFilesMax: 1}
	store, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, createLog(t, store, settings(nil)), 25)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = Open(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	log := createLog(t, store, settings(nil))
	read := func(offset int64) {
		slice, err := log.Read(offset, offset+1, 100, true)
		if err != nil {
			t.Fatal(err)
		}
		slice.Release()
	}
	read(0) // the data of the first segment is open, its indexes are not
	disk.none.Store(true)
	err = log.list.Load().Handles[0].Rename(swap.DeletedSuffix)
	disk.none.Store(false)
	if !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("rename: %v", err)
	}
	for range 2 {
		read(12)
		read(24)
	}
	if open := log.env.segments.Handles.Open(); open > 1 {
		t.Errorf("%d files are open, want at most 1", open)
	}
}

// TestRecoveryPointWaitsForSegmentRolledDuringFlush checks an append that rolls the log during a
// flush. The rolled segment is synced but not sealed, so recovery must scan it. Therefore the
// recovery point stays at the base offset of the rolled segment.
func TestRecoveryPointWaitsForSegmentRolledDuringFlush(t *testing.T) {
	disk := &stuckDisk{FS: vfs.NewMem()}
	store := openStore(t, disk)
	log := createLog(t, store, settings(nil))
	fill(t, log, 10) // fills the segment
	held := disk.hold(vfs.OpSync, "*.log")
	done := make(chan error, 1)
	go func() { done <- log.disk.Flush() }()
	<-held.reached
	appendBatch(t, log, keyed(t, "k10"))
	close(held.free)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := bases(log); len(got) != 2 {
		t.Fatalf("segments %v, want two", got)
	}
	if point := log.checkpointState().RecoveryPoint; point != 0 || log.disk.Synced() < 10 {
		t.Errorf("the recovery point is %d, %d is synced", point, log.disk.Synced())
	}
	if err := log.disk.Flush(); err != nil || log.checkpointState().RecoveryPoint != 11 {
		t.Errorf("the next flush: %v, recovery point %d", err, log.checkpointState().RecoveryPoint)
	}
}
