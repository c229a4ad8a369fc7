package keys

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

var errDisk = errors.New("injected")

// makeOn builds the sidecar on fsys by a scan. It has so little memory that it needs the sorter's
// temporary file.
func (w *world) makeOn(fsys vfs.FS) error {
	spool := w.spool()
	spool.fsys = fsys
	defer func() { _ = spool.Discard() }()
	if err := Scan(w.segment, w.salt.Hasher(), spool, ScanOptions{}); err != nil {
		return err
	}
	b := build{fsys: fsys, name: w.name(), spool: spool, meter: Options{}.meter(w.t.Context()),
		fit: 400}
	if err := b.checkSpool(w.identity()); err != nil {
		return err
	}
	return b.run(b.sorted)
}

// complete reports whether the sidecar exists. The test fails if the sidecar exists but is
// incomplete.
func (w *world) complete(fsys vfs.FS, when string) (found bool) {
	w.t.Helper()
	err := readAll(fsys, w.name(), w.expect())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("seed %d: %s: %v", w.seed, when, err)
	}
	return err == nil
}

func TestFaultAtEveryCallLeavesCompleteSidecarOrNone(t *testing.T) {
	s := shape{batches: 150, recordsMax: 10, keys: 500, valueMax: 3, plain: true}
	for step := 1; ; step++ {
		memory := vfs.NewMem()
		w := newWorld(t, memory, 77, s)
		fault := vfs.NewFault(memory)
		fault.Inject(vfs.Rule{Skip: step - 1, Times: 1, Err: errDisk})
		err := w.makeOn(fault)
		hit := fault.Count() >= step
		found := w.complete(memory, "after a fault")
		if !hit {
			if err != nil || !found {
				t.Fatalf("without a fault: %v, sidecar %v", err, found)
			}
			if step < 20 {
				t.Fatalf("only %d calls of the file system, want at least 20", step)
			}
			return
		}
		if err == nil && !found {
			t.Errorf("step %d: Build succeeded, but there is no sidecar", step)
		}
		for seed := range uint64(5) {
			w.complete(memory.CrashClonePartly(seed), "after a fault and a crash")
		}
	}
}

// TestCrashAtEveryStepLeavesCompleteSidecarOrNone cuts the power before and after every write, sync
// and rename. Afterwards the sidecar either is complete or does not exist.
func TestCrashAtEveryStepLeavesCompleteSidecarOrNone(t *testing.T) {
	memory := vfs.NewMem()
	w := newWorld(t, memory, 78,
		shape{batches: 100, recordsMax: 10, keys: 500, valueMax: 3, plain: true})
	steps, found := 0, 0
	w.must(w.makeOn(&crashing{FS: memory, before: func() {
		steps++
		for seed := range uint64(6) {
			if w.complete(memory.CrashClonePartly(seed), "after a crash") {
				found++
			}
		}
	}}))
	if steps < 10 || found == 0 {
		t.Errorf("%d steps, %d of them with a sidecar", steps, found)
	}
	if !w.complete(memory.CrashClone(), "at the end") {
		t.Error("a crash after Build has returned loses the sidecar")
	}
}

// crashing is a file system that calls the function before ahead of each operation whose effect a
// crash may lose. It also calls the function after renames and syncs.
type crashing struct {
	vfs.FS
	before func()
}

func (c *crashing) Create(name string) (vfs.File, error) {
	c.before()
	file, err := c.FS.Create(name)
	return &crashingFile{file, c.before}, err
}

func (c *crashing) Rename(from, to string) error {
	c.before()
	defer c.before()
	return c.FS.Rename(from, to)
}

func (c *crashing) SyncDir(name string) error {
	c.before()
	return c.FS.SyncDir(name)
}

type crashingFile struct {
	vfs.File
	before func()
}

func (f *crashingFile) WriteAt(b []byte, position int64) (int, error) {
	f.before()
	return f.File.WriteAt(b, position)
}

func (f *crashingFile) Sync() error {
	f.before()
	defer f.before()
	return f.File.Sync()
}

func TestSidecarIsWrittenInOrder(t *testing.T) {
	memory := vfs.NewMem()
	w := newWorld(t, memory, 79,
		shape{batches: 200, recordsMax: 10, keys: 500, valueMax: 3, plain: true})
	trace := vfs.NewTrace(memory, "/")
	w.must(w.makeOn(trace))
	got := trace.Take()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("testdata/build.trace", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/build.trace")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the order of writing is\n%s\nwant\n%s", strings.TrimSpace(got),
			strings.TrimSpace(string(want)))
	}
}
