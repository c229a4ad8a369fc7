package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func createFiles(t *testing.T, handles *Handles, n int) []*Handle {
	t.Helper()
	var all []*Handle
	for i := range n {
		h, err := handles.Create(fmt.Sprintf("f%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.WriteAt([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

func readByte(t *testing.T, h *Handle) byte {
	t.Helper()
	var b [1]byte
	if _, err := h.ReadAt(b[:], 0); err != nil {
		t.Fatal(err)
	}
	return b[0]
}

func TestHandlesKeepABoundedNumberOfFilesOpen(t *testing.T) {
	handles := NewHandles(NewMem(), 3)
	all := createFiles(t, handles, 10)
	if handles.Open() != 10 {
		t.Errorf("%d files are open, want all 10: they have unsynced writes", handles.Open())
	}
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		for i, h := range all {
			if got := readByte(t, h); got != byte(i) {
				t.Errorf("round %d: file %d contains %d", round, i, got)
			}
		}
	}
	extra, err := handles.Create("more")
	if err != nil {
		t.Fatal(err)
	}
	if handles.Open() > 3 {
		t.Errorf("%d files are open, want at most 3", handles.Open())
	}
	for _, h := range append(all, extra) {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if handles.Open() != 0 {
		t.Errorf("%d files are open after all were closed", handles.Open())
	}
	if _, err := all[0].ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read after Close: %v, want fs.ErrClosed", err)
	}
}

// TestPinnedAndKeptFilesStayReadable checks that pinned and kept files stay readable when other
// files are opened, even after their names belong to other files.
func TestPinnedAndKeptFilesStayReadable(t *testing.T) {
	mem := NewMem()
	handles := NewHandles(mem, 1)
	all := createFiles(t, handles, 4)
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	pinned, err := all[0].Pin()
	if err != nil {
		t.Fatal(err)
	}
	if err := all[1].Keep(); err != nil {
		t.Fatal(err)
	}
	all[2].Freeze()
	readByte(t, all[3])
	createFiles(t, NewHandles(mem, 0), 4) // create other files with the same names
	for i := range 4 {
		// Rename these files, so that no files with these names exist.
		if err := mem.Rename(fmt.Sprintf("f%d", 3-i), fmt.Sprintf("old%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var b [1]byte
	if _, err := pinned.ReadAt(b[:], 0); err != nil || b[0] != 0 {
		t.Errorf("pinned file contains %d, %v; want 0", b[0], err)
	}
	if got := readByte(t, all[1]); got != 1 {
		t.Errorf("kept file contains %d, want 1", got)
	}
	if _, err := all[2].ReadAt(b[:], 0); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read of a frozen file: %v, want no error or fs.ErrClosed", err)
	}
	all[0].Unpin()
	all[1].Release("old2")
}

// TestConcurrentReadsReturnOwnContent reads eight files concurrently through a table that keeps at
// most two open. Each read must return the content of its own file.
func TestConcurrentReadsReturnOwnContent(t *testing.T) {
	handles := NewHandles(NewMem(), 2)
	all := createFiles(t, handles, 8)
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	seed := seed.New(t)
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(r)))
			for range 500 {
				i := random.IntN(len(all))
				var b [1]byte
				if _, err := all[i].ReadAt(b[:], 0); err != nil || b[0] != byte(i) {
					t.Errorf("file %d contains %d, %v", i, b[0], err)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestLostWritesReachTheDiskOnlyWhenWrittenAgain(t *testing.T) {
	mem := NewMem()
	file, err := mem.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, position int64) {
		if _, err := file.WriteAt([]byte(text), position); err != nil {
			t.Fatal(err)
		}
	}
	disk := func() string {
		content, err := mem.CrashClone().ReadFile("f")
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	write("abc", 0)
	if err := errors.Join(file.Sync(), mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	write("def", 3)
	if err := errors.Join(mem.LoseUnsynced("f"), file.Sync()); err != nil {
		t.Fatal(err)
	}
	if got := disk(); got != "abc\x00\x00\x00" {
		t.Errorf("disk after a second sync: %q", got)
	}
	write("de", 3)
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := disk(); got != "abcde\x00" {
		t.Errorf("disk after writing again: %q", got)
	}
}

// limitedFS is a filesystem that fails with EMFILE if more than max files would be open.
type limitedFS struct {
	FS
	open, max int
}

func (d *limitedFS) Create(name string) (File, error) { return d.opened(name, d.FS.Create) }
func (d *limitedFS) OpenReadWrite(name string) (File, error) {
	return d.opened(name, d.FS.OpenReadWrite)
}

func (d *limitedFS) opened(name string, open func(string) (File, error)) (File, error) {
	if d.open >= d.max {
		return nil, pathError("open", name, syscall.EMFILE)
	}
	file, err := open(name)
	if err == nil {
		d.open++
		file = &countedFile{file, d}
	}
	return file, err
}

type countedFile struct {
	File
	disk *limitedFS
}

func (f *countedFile) Close() error {
	f.disk.open--
	return f.File.Close()
}

// TestFilesAreClosedOnDescriptorExhaustion checks that Handles closes files of the table when the
// process has no descriptor left to open another file, even if the table's limit is not reached.
func TestFilesAreClosedOnDescriptorExhaustion(t *testing.T) {
	disk := &limitedFS{FS: NewMem(), max: 6}
	handles := NewHandles(disk, 100)
	all := createFiles(t, handles, 5)
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	disk.max = 3 // as if connections used the other descriptors
	all = append(all, createFiles(t, handles, 1)...)
	for i, h := range all[:5] {
		if got := readByte(t, h); got != byte(i) {
			t.Errorf("file %d contains %d", i, got)
		}
	}
	for _, h := range all[:2] { // together with the unsynced file, the maximum number of open files
		if _, err := h.Pin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all[2].Pin(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("pin while all files are in use: %v, want EMFILE", err)
	}
	if handles.Open() != 3 || disk.open != 3 {
		t.Errorf("table has %d open files and the process %d, want 3", handles.Open(), disk.open)
	}
	all[0].Unpin()
	if got := readByte(t, all[2]); got != 2 {
		t.Errorf("file 2 contains %d", got)
	}
}

// TestWithDescriptorRetriesABoundedNumberOfTimes checks that WithDescriptor closes files of the
// table until opening outside the table succeeds, and that it gives up after openAttempts attempts.
func TestWithDescriptorRetriesABoundedNumberOfTimes(t *testing.T) {
	disk := &limitedFS{FS: NewMem(), max: 50}
	handles := NewHandles(disk, 100)
	for _, h := range createFiles(t, handles, 40) {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	attempts := 0
	openWhenAtMost := func(open int) func() error {
		return func() error {
			if attempts++; disk.open > open {
				return pathError("open", "directory", syscall.EMFILE)
			}
			return nil
		}
	}
	if err := handles.WithDescriptor(openWhenAtMost(10)); err != nil || attempts != 3 ||
		disk.open > 10 {
		t.Errorf("%v after %d attempts with %d open files, want success in 3 attempts", err,
			attempts, disk.open)
	}
	attempts = 0
	if err := handles.WithDescriptor(openWhenAtMost(-1)); !errors.Is(err, syscall.EMFILE) ||
		attempts > openAttempts {
		t.Errorf("%v after %d attempts", err, attempts)
	}
	attempts = 0
	full := errors.New("another fault")
	if err := handles.WithDescriptor(func() error { attempts++; return full }); !errors.Is(err,
		full) ||
		attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}

// syncedDuringWrite is a file that calls function sync in each write, before it writes.
type syncedDuringWrite struct {
	File
	sync func()
}

func (f *syncedDuringWrite) WriteAt(p []byte, offset int64) (int, error) {
	f.sync()
	return f.File.WriteAt(p, offset)
}

type syncedDuringWriteFS struct {
	FS
	sync func()
}

func (d *syncedDuringWriteFS) Create(name string) (File, error) {
	file, err := d.FS.Create(name)
	return &syncedDuringWrite{file, func() { d.sync() }}, err
}

// TestWriteConcurrentWithSyncCountsAsUnsynced syncs a file during a write. The write must still
// count as unsynced, so the file must stay open although the limit is one file.
func TestWriteConcurrentWithSyncCountsAsUnsynced(t *testing.T) {
	disk := &syncedDuringWriteFS{FS: NewMem()}
	handles := NewHandles(disk, 1)
	file, err := handles.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	disk.sync = func() {
		if err := file.Sync(); err != nil {
			t.Error(err)
		}
	}
	if _, err := file.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	disk.sync = func() {}
	createFiles(t, handles, 1)
	if handles.Open() != 2 {
		t.Errorf("%d files are open, want 2: a file with unsynced writes was closed",
			handles.Open())
	}
}

// TestCloseIdleClosesUnusedFilesOnly checks that CloseIdle closes files that were not used since
// the previous call, except files that are pinned, kept or have unsynced writes.
func TestCloseIdleClosesUnusedFilesOnly(t *testing.T) {
	handles := NewHandles(NewMem(), 0)
	const n = 3 * evictionScanMax
	all := createFiles(t, handles, n)
	for _, h := range all[1:] { // the first file still has an unsynced write
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all[1].Pin(); err != nil {
		t.Fatal(err)
	}
	if err := all[2].Keep(); err != nil {
		t.Fatal(err)
	}
	handles.CloseIdle() // every file was used before this call
	if open := handles.Open(); open != n {
		t.Fatalf("%d files are open after the first call, want all %d", open, n)
	}
	readByte(t, all[n-1])
	handles.CloseIdle()
	if open := handles.Open(); open != 4 {
		t.Errorf("%d files are open, want the unsynced, the pinned, the kept and the used one", open)
	}
	for i, h := range all {
		if got := readByte(t, h); got != byte(i) {
			t.Fatalf("file %d contains %d", i, got)
		}
	}
	all[1].Unpin()
}
