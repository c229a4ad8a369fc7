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

// make makes the sidecar from scratch on fsys, with a file of runs, and leaves the world's own
// filesystem alone.
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

// whole tells that there is no sidecar or a whole one.
func (w *world) whole(fsys vfs.FS, when string) (there bool) {
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
		there := w.whole(memory, "after a fault")
		if !hit {
			if err != nil || !there {
				t.Fatalf("without a fault: %v, sidecar %v", err, there)
			}
			if step < 20 {
				t.Fatalf("only %d steps: the test does not reach what it is for", step)
			}
			return
		}
		if err == nil && !there {
			t.Errorf("step %d: no error, and no sidecar", step)
		}
		for seed := range uint64(5) {
			w.whole(memory.CrashClonePartly(seed), "after a fault and a crash")
		}
	}
}

// A power cut at any moment: the file has its name only with all its content.
func TestCrashAtEveryStepLeavesCompleteSidecarOrNone(t *testing.T) {
	memory := vfs.NewMem()
	w := newWorld(t, memory, 78,
		shape{batches: 100, recordsMax: 10, keys: 500, valueMax: 3, plain: true})
	moments, there := 0, 0
	w.must(w.makeOn(&crashing{FS: memory, moment: func() {
		moments++
		for seed := range uint64(6) {
			if w.whole(memory.CrashClonePartly(seed), "after a crash") {
				there++
			}
		}
	}}))
	if moments < 10 || there == 0 {
		t.Errorf("%d moments, %d times there was a sidecar", moments, there)
	}
	if !w.whole(memory.CrashClone(), "at the end") {
		t.Error("Build has returned, and a crash takes the sidecar")
	}
}

// crashing calls moment before each step that the disk may keep or lose.
type crashing struct {
	vfs.FS
	moment func()
}

func (c *crashing) Create(name string) (vfs.File, error) {
	c.moment()
	file, err := c.FS.Create(name)
	return &crashingFile{file, c.moment}, err
}

func (c *crashing) Rename(from, to string) error {
	c.moment()
	defer c.moment()
	return c.FS.Rename(from, to)
}

func (c *crashing) SyncDir(name string) error {
	c.moment()
	return c.FS.SyncDir(name)
}

type crashingFile struct {
	vfs.File
	moment func()
}

func (f *crashingFile) WriteAt(b []byte, at int64) (int, error) {
	f.moment()
	return f.File.WriteAt(b, at)
}

func (f *crashingFile) Sync() error {
	f.moment()
	defer f.moment()
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
