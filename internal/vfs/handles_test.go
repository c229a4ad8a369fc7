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

func madeFiles(t *testing.T, handles *Handles, n int) []*Handle {
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

func contentOf(t *testing.T, h *Handle) byte {
	t.Helper()
	var b [1]byte
	if _, err := h.ReadAt(b[:], 0); err != nil {
		t.Fatal(err)
	}
	return b[0]
}

func TestHandlesKeepABoundedNumberOfFilesOpen(t *testing.T) {
	handles := NewHandles(NewMem(), 3)
	all := madeFiles(t, handles, 10)
	if handles.Open() != 10 {
		t.Errorf("%d open: what is not synced has to stay", handles.Open())
	}
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		for i, h := range all {
			if got := contentOf(t, h); got != byte(i) {
				t.Errorf("round %d: file %d holds %d", round, i, got)
			}
		}
	}
	extra, err := handles.Create("more")
	if err != nil {
		t.Fatal(err)
	}
	if handles.Open() > 3 {
		t.Errorf("%d are open, want 3", handles.Open())
	}
	for _, h := range append(all, extra) {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if handles.Open() != 0 {
		t.Errorf("%d are open after all were closed", handles.Open())
	}
	if _, err := all[0].ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

// What is pinned or kept is read on whatever else is opened, and whatever its name is another's by
// then.
func TestPinnedAndKeptFilesStay(t *testing.T) {
	mem := NewMem()
	handles := NewHandles(mem, 1)
	all := madeFiles(t, handles, 4)
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
	contentOf(t, all[3])
	madeFiles(t, NewHandles(mem, 0), 4) // other files under the same names...
	for i := range 4 {
		// ...that are gone, too
		if err := mem.Rename(fmt.Sprintf("f%d", 3-i), fmt.Sprintf("old%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var b [1]byte
	if _, err := pinned.ReadAt(b[:], 0); err != nil || b[0] != 0 {
		t.Errorf("pinned: %d, %v", b[0], err)
	}
	if got := contentOf(t, all[1]); got != 1 {
		t.Errorf("kept: %d", got)
	}
	if _, err := all[2].ReadAt(b[:], 0); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Errorf("frozen: %v: it is open still, or is not opened any more", err)
	}
	all[0].Unpin()
	all[1].Release("old2")
}

// Any number of readers beside opening and closing get each file's own content.
func TestHandlesBesideEachOther(t *testing.T) {
	handles := NewHandles(NewMem(), 2)
	all := madeFiles(t, handles, 8)
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
					t.Errorf("file %d: %d, %v", i, b[0], err)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestLostWritesComeBackOnlyWhenWrittenAgain(t *testing.T) {
	mem := NewMem()
	file, err := mem.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, at int64) {
		if _, err := file.WriteAt([]byte(text), at); err != nil {
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
		t.Errorf("a second sync: %q", got)
	}
	write("de", 3)
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := disk(); got != "abcde\x00" {
		t.Errorf("written again: %q", got)
	}
}

// fewFiles is a process that may have max files.
type fewFiles struct {
	FS
	open, max int
}

func (d *fewFiles) Create(name string) (File, error) { return d.opened(name, d.FS.Create) }
func (d *fewFiles) OpenReadWrite(name string) (File, error) {
	return d.opened(name, d.FS.OpenReadWrite)
}

func (d *fewFiles) opened(name string, open func(string) (File, error)) (File, error) {
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
	disk *fewFiles
}

func (f *countedFile) Close() error {
	f.disk.open--
	return f.File.Close()
}

// A process that has no file left closes one of the set for the file that is wanted, whatever the
// set was allowed.
func TestOthersAreClosedWhenThereIsNoFileLeft(t *testing.T) {
	disk := &fewFiles{FS: NewMem(), max: 6}
	handles := NewHandles(disk, 100)
	all := madeFiles(t, handles, 5)
	for _, h := range all {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	disk.max = 3 // connections took the rest
	all = append(all, madeFiles(t, handles, 1)...)
	for i, h := range all[:5] {
		if got := contentOf(t, h); got != byte(i) {
			t.Errorf("file %d holds %d", i, got)
		}
	}
	for _, h := range all[:2] { // with the one that is not synced all that may be open
		if _, err := h.Pin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all[2].Pin(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("all are in use: %v", err)
	}
	if handles.Open() != 3 || disk.open != 3 {
		t.Errorf("%d and %d are open", handles.Open(), disk.open)
	}
	all[0].Unpin()
	if got := contentOf(t, all[2]); got != 2 {
		t.Errorf("file 2 holds %d", got)
	}
}

// What is not of the set is afforded as well: as often as it takes, and not for ever.
func TestOthersAreClosedForWhatIsNotOfTheSet(t *testing.T) {
	disk := &fewFiles{FS: NewMem(), max: 50}
	handles := NewHandles(disk, 100)
	for _, h := range madeFiles(t, handles, 40) {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	tries := 0
	wants := func(open int) func() error {
		return func() error {
			if tries++; disk.open > open {
				return pathError("open", "directory", syscall.EMFILE)
			}
			return nil
		}
	}
	if err := handles.Afford(wants(10)); err != nil || tries != 3 || disk.open > 10 {
		t.Errorf("%v after %d tries, %d files are open", err, tries, disk.open)
	}
	tries = 0
	if err := handles.Afford(wants(-1)); !errors.Is(err, syscall.EMFILE) || tries > openTries {
		t.Errorf("%v after %d tries", err, tries)
	}
	tries = 0
	full := errors.New("another fault")
	if err := handles.Afford(func() error { tries++; return full }); !errors.Is(err, full) ||
		tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// overtaken syncs a file between the begin of a write and its end.
type overtaken struct {
	File
	sync func()
}

func (f *overtaken) WriteAt(p []byte, offset int64) (int, error) {
	f.sync()
	return f.File.WriteAt(p, offset)
}

type overtakenDisk struct {
	FS
	sync func()
}

func (d *overtakenDisk) Create(name string) (File, error) {
	file, err := d.FS.Create(name)
	return &overtaken{file, func() { d.sync() }}, err
}

// What is written beside a sync is not synced by it: the file stays open.
func TestAWriteThatASyncOvertakesCountsAsUnsynced(t *testing.T) {
	disk := &overtakenDisk{FS: NewMem()}
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
	madeFiles(t, handles, 1)
	if handles.Open() != 2 {
		t.Errorf("%d are open: a file was closed that was written and not synced", handles.Open())
	}
}
