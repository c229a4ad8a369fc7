package epochfile

import (
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

const dir = "/data/tickets-0"

var began = time.UnixMilli(1_700_000_000_000)

// newFile returns the epochs 3 at offset 0 and 4 at offset 10. The file contains only the first
// one.
func newFile(t *testing.T) (*File, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll(dir), mem.SyncDir("/"), mem.SyncDir("/data")); err != nil {
		t.Fatal(err)
	}
	var maintain, mu sync.Mutex
	f := &File{FS: mem, Dir: dir, Maintain: &maintain, Mu: &mu,
		Fault: &fault.State{Logger: slog.New(slog.DiscardHandler), Mu: &mu}}
	if err := f.Restore(leaderepoch.Cache{{Epoch: 3, Start: 0}}, nil, true, 0); err != nil {
		t.Fatal(err)
	}
	f.AssignLocked(4, 10)
	return f, mem
}

// want checks the epochs in memory and in the file.
func want(t *testing.T, f *File, fsys vfs.FS, inMemory, inFile leaderepoch.Cache) {
	t.Helper()
	var stored leaderepoch.Cache
	content, err := fsys.ReadFile(filepath.Join(dir, checkpoint.EpochsFile))
	if err == nil {
		if stored, err = checkpoint.DecodeEpochs(content); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(f.Load(), inMemory) || !slices.Equal(stored, inFile) {
		t.Errorf("%v in memory, %v in the file; want %v and %v", f.Load(), stored, inMemory, inFile)
	}
}

var (
	first = leaderepoch.Cache{{Epoch: 3, Start: 0}}
	both  = leaderepoch.Cache{{Epoch: 3, Start: 0}, {Epoch: 4, Start: 10}}
)

// TestNewEpochIsWrittenLater checks that a new epoch is written after Delay, or at once if its
// segment was rolled.
func TestNewEpochIsWrittenLater(t *testing.T) {
	f, mem := newFile(t)
	want(t, f, mem, both, first)
	if from := f.UnsavedFromLocked(); from != 10 {
		t.Errorf("unsaved from %d, want 10", from)
	}
	for _, test := range []struct {
		after    time.Duration
		rolledAt int64
		due      bool
	}{{0, 10, false}, {Delay - 1, 10, false}, {Delay - 1, 11, true}, {Delay, 10, true}} {
		if due := f.DueLocked(began.Add(test.after), test.rolledAt); due != test.due {
			t.Errorf("after %v with a segment at %d: due %t", test.after, test.rolledAt, due)
		}
	}
	if err := f.SaveDue(); err != nil {
		t.Fatal(err)
	}
	want(t, f, mem.CrashClone(), both, both)
	if from := f.UnsavedFromLocked(); from != math.MaxInt64 || f.DueLocked(began.Add(2*Delay), 50) {
		t.Errorf("unsaved from %d after a save", from)
	}
}

// TestTruncationRemovesEpochs checks that a truncation writes the file only if the file contains an
// epoch that it removes.
func TestTruncationRemovesEpochs(t *testing.T) {
	f, mem := newFile(t)
	faulty := vfs.NewFault(mem)
	f.FS = faulty
	faulty.Inject(vfs.Rule{Op: vfs.OpCreate, Name: "*", Err: syscall.EIO})
	if err := f.TruncateEnd(10); err != nil {
		t.Errorf("an epoch that is not in the file was written: %v", err)
	}
	want(t, f, mem, first, first)
	f.AssignLocked(5, 8)
	if err := f.Save(); err == nil {
		t.Error("an epoch was not written")
	}
	// After a failed write, the content of the file is unknown.
	if err := f.TruncateEnd(8); err == nil {
		t.Error("the file was not written after a write that failed")
	}
	faulty.Clear()
	if err := errors.Join(f.Save(), f.TruncateEnd(8)); err != nil {
		t.Fatal(err)
	}
	want(t, f, mem.CrashClone(), first, first)
	f.AssignLocked(6, 20)
	if err := f.TruncateFront(25); err != nil {
		t.Fatal(err)
	}
	kept := leaderepoch.Cache{{Epoch: 6, Start: 25}}
	want(t, f, mem.CrashClone(), kept, kept)
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	want(t, f, mem.CrashClone(), nil, nil)
}

// TestStoppedLogWritesNoFile checks that a stopped log writes no file, because the directory of a
// closed log may belong to another log.
func TestStoppedLogWritesNoFile(t *testing.T) {
	f, mem := newFile(t)
	f.Fault.CloseLocked()
	if err := errors.Join(f.SaveDue(), f.TruncateFront(30)); err != nil {
		t.Errorf("a closed log: %v", err)
	}
	if err := f.TruncateEnd(5); !errors.Is(err, segmentlist.ErrClosed) {
		t.Errorf("a truncation of a closed log: %v", err)
	}
	if f.DueLocked(began.Add(time.Hour), 100) {
		t.Error("a closed log has to write its file")
	}
	want(t, f, mem, both, first)
}
