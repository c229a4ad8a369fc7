package vfs

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestFaultFailsMatchingOperations(t *testing.T) {
	fault := NewFault(NewMem())
	fault.Inject(Rule{Op: OpWrite, Name: "*.log", Skip: 1, Times: 2, Err: syscall.ENOSPC})
	log, index := put(t, fault, "d.log", "first passes"), put(t, fault, "d.index", "x")
	for i, want := range []bool{true, true, false} {
		_, err := log.WriteAt([]byte("y"), 0)
		if errors.Is(err, syscall.ENOSPC) != want || !want && err != nil {
			t.Errorf("write %d: %v, want ENOSPC: %v", i, err, want)
		}
	}
	fault.Inject(Rule{Op: OpSync})
	fault.Inject(Rule{Op: OpRename, Name: "d.index"})
	if err := index.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v, want the default EIO", err)
	}
	if err := fault.Rename("d.index", "e"); !errors.Is(err, syscall.EIO) {
		t.Errorf("rename: %v, want EIO", err)
	}
	must(t, fault.Rename("d.log", "e.log"))
	fault.Clear()
	must(t, index.Sync())
}

func TestFaultInjectsShortWrites(t *testing.T) {
	fault := NewFault(NewMem())
	file := put(t, fault, "a", "")
	fault.Inject(Rule{Op: OpWrite, WriteBytes: 3})
	if n, err := file.WriteAt([]byte("01234"), 0); n != 3 || err == nil {
		t.Errorf("short write returned %d, %v; want 3 and an error", n, err)
	}
	fault.Clear()
	wantContent(t, fault, "a", "012")
}

// TestFaultAppliesToEveryOperation checks that a rule for an operation makes exactly this operation
// fail, and that the caller receives the injected error.
func TestFaultAppliesToEveryOperation(t *testing.T) {
	fault := NewFault(NewMem())
	file := put(t, fault, "a", "abc")
	for op, run := range map[Op]func() error{
		OpOpen:      func() error { _, err := fault.Open("a"); return err },
		OpCreate:    func() error { _, err := fault.Create("b"); return err },
		OpReadFile:  func() error { _, err := fault.ReadFile("a"); return err },
		OpRename:    func() error { return fault.Rename("a", "a") },
		OpRemove:    func() error { return fault.Remove("a") },
		OpRemoveAll: func() error { return fault.RemoveAll("a") },
		OpMkdir:     func() error { return fault.MkdirAll("d") },
		OpReadDir:   func() error { _, err := fault.ReadDir("/"); return err },
		OpStat:      func() error { _, err := fault.Stat("a"); return err },
		OpChtimes: func() error {
			return fault.Chtimes("a",
				file.(*faultFile).File.(*memFile).node.mtime)
		},
		OpSyncDir:  func() error { return fault.SyncDir("/") },
		OpLock:     func() error { _, err := fault.Lock("l"); return err },
		OpFree:     func() error { _, err := fault.Free("/"); return err },
		OpRead:     func() error { _, err := file.ReadAt(make([]byte, 1), 0); return err },
		OpWrite:    func() error { _, err := file.WriteAt([]byte("x"), 0); return err },
		OpSize:     func() error { _, err := file.Size(); return err },
		OpTruncate: func() error { return file.Truncate(1) },
		OpSync:     func() error { return file.Sync() },
	} {
		fault.Inject(Rule{Op: op})
		before, failed := fault.Count(), fault.Failed()
		if err := run(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", op, err)
		}
		if fault.Failed() != failed+1 {
			t.Errorf("%s failed %d times, want once", op, fault.Failed()-failed)
		}
		if fault.Count() != before+1 {
			t.Errorf("%s was counted %d times, want once", op, fault.Count()-before)
		}
		fault.Clear()
	}
	fault.Inject(Rule{Op: OpClose})
	if err := file.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v, want EIO", err)
	}
	if _, err := file.Size(); err == nil {
		t.Error("a failing Close left the file open")
	}
}

func TestTraceOfWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	trace := NewTrace(OS{}, dir)
	must(t, WriteFileAtomic(trace, dir+"/checkpoint", []byte("0\n1\n")))
	want, err := os.ReadFile("testdata/write-file-atomic.trace")
	must(t, err)
	if got := trace.Take(); got != string(want) {
		t.Errorf("operations:\n%swant:\n%s", got, want)
	}
}

func TestTraceRecordsChangesNotReads(t *testing.T) {
	trace := NewTrace(NewMem(), "/data")
	must(t, trace.MkdirAll("/data/p-0"))
	file := put(t, trace, "/data/p-0/a", "abc")
	_, _ = trace.ReadFile("/data/p-0/a")
	_, _ = file.ReadAt(make([]byte, 1), 0)
	must(t, file.Truncate(1))
	_ = trace.Remove("/data/missing")
	must(t, trace.RemoveAll("/data/p-0"))
	want := "mkdir p-0\ncreate p-0/a\nwrite p-0/a 0+3\ntruncate p-0/a 1\n" +
		"remove missing: remove /data/missing: file does not exist\nremove-all p-0\n"
	if got := trace.Take(); got != want {
		t.Errorf("operations:\n%swant:\n%s", got, want)
	}
	if trace.Take() != "" {
		t.Error("Take did not reset the trace")
	}
}
