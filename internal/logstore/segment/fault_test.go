package segment

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// onFaultyDisk returns a segment with three batches on a disk in which tests can inject faults.
func onFaultyDisk(t *testing.T) (*Segment, *vfs.Fault, *model) {
	t.Helper()
	fault := vfs.NewFault(vfs.NewMem())
	s, err := Create(fault, "/", 0, "", Config{IndexIntervalBytes: 100, UnwrittenEntriesMax: 1})
	must(t, err)
	m := &model{}
	appendSome(t, s, m, 3)
	return s, fault, m
}

func appendSome(t *testing.T, s *Segment, m *model, n int) {
	t.Helper()
	for range n {
		b := batchOf(t, m.next(), 2, 1000+m.next(), 100)
		must(t, s.Append(b))
		m.batches = append(m.batches, b)
	}
}

func TestDiskFullDuringAppendLeavesTheSegmentUnchanged(t *testing.T) {
	for _, written := range []int{0, 1, 60, 61, 150} {
		s, fault, m := onFaultyDisk(t)
		fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC, WriteBytes: written})
		if err := s.Append(batchOf(t, m.next(), 2, 9999, 100)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("append to a full disk: %v", err)
		}
		fault.Clear()
		random := newRandom(t)
		m.check(t, s, random)
		wantLog(t, fault, m)
		if err := s.Broken(); err != nil {
			t.Errorf("broken by a full disk: %v", err)
		}
		appendSome(t, s, m, 3)
		must(t, s.Close())
		s, err := Open(fault, "/", 0, Config{IndexIntervalBytes: 100})
		must(t, err)
		m.check(t, s, random)
	}
}

func wantLog(t *testing.T, fsys vfs.FS, m *model) {
	t.Helper()
	got, err := fsys.ReadFile("/" + Name(m.base, LogExtension, ""))
	must(t, err)
	if !bytes.Equal(got, m.bytes()) {
		t.Fatalf("the data file has %d bytes, want %d", len(got), len(m.bytes()))
	}
}

func TestSegmentThatCannotBeTruncatedIsUnusable(t *testing.T) {
	s, fault, m := onFaultyDisk(t)
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC, WriteBytes: 10})
	fault.Inject(vfs.Rule{Op: vfs.OpTruncate})
	if err := s.Append(batchOf(t, m.next(), 2, 9999, 100)); err == nil {
		t.Fatal("append succeeded, want an error")
	}
	fault.Clear()
	for name, change := range map[string]func() error{
		"append":   func() error { return s.Append(batchOf(t, m.next(), 2, 9999, 100)) },
		"sync":     s.Sync,
		"seal":     s.Seal,
		"truncate": func() error { return s.Truncate(1) },
	} {
		if change() == nil {
			t.Errorf("%s of a broken segment succeeded", name)
		}
	}
	if err := s.Broken(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Broken returns %v, want EIO", err)
	}
	// The batches of the broken segment can still be read, and Recover repairs the segment.
	m.check(t, s, newRandom(t))
	must(t, s.Close())
	s, found, err := Recover(fault, "/", 0, Config{IndexIntervalBytes: 100}, nil)
	must(t, err)
	if found.TruncatedBytes != 10 {
		t.Errorf("recovery found %+v", found)
	}
	m.check(t, s, newRandom(t))
}

// TestFailedSyncIsFinal checks that after a failed sync, a second sync does not succeed, because
// the kernel may have dropped the pages that it failed to write.
func TestFailedSyncIsFinal(t *testing.T) {
	s, fault, m := onFaultyDisk(t)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Times: 1})
	if err := s.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	if err := s.Sync(); err == nil {
		t.Error("the second sync succeeded")
	}
	if err := s.Append(batchOf(t, m.next(), 1, 1, 1)); err == nil {
		t.Error("append after a failed sync succeeded")
	}
}

// TestFullDiskForIndexesOnly uses a disk that is full only for index files. Sync succeeds, because
// index entries can stay in memory. Seal has to write the entries, so it fails until there is space
// again.
func TestFullDiskForIndexesOnly(t *testing.T) {
	s, fault, m := onFaultyDisk(t)
	for _, name := range []string{"*.index", "*.timeindex"} {
		fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: name, Err: syscall.ENOSPC, WriteBytes: 5})
	}
	must(t, s.Sync())
	appendSome(t, s, m, 2)
	if err := s.Seal(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("seal: %v", err)
	}
	appendSome(t, s, m, 2)
	m.check(t, s, newRandom(t))
	fault.Clear()
	must(t, s.Seal())
	m.check(t, s, newRandom(t))
	m.checkIndexes(t, fault, "/")
}

// TestSegmentSurvivesOneFaultAtAnyOperation makes a single operation fail, at any step of
// writeSegment. Recover after a crash then finds all synced batches.
func TestSegmentSurvivesOneFaultAtAnyOperation(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Skip: step, Times: 1, Err: syscall.ENOSPC, WriteBytes: 20})
		m, durable, err := writeSegment(t, fault)
		fault.Clear()
		recoverCrashed(t, mem.CrashClone(), m, durable, step)
		if err == nil && step > fault.Count() {
			return
		}
	}
}

func TestFailedOpenClosesItsFilesAndCanBeRetried(t *testing.T) {
	mem := vfs.NewMem()
	m, _, err := writeSegment(t, mem)
	must(t, err)
	must(t, mem.Remove("/"+Name(m.base, TimeIndexExtension, ""))) // makes Open write too
	for step := 0; ; step++ {
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Skip: step, Times: 1})
		s, err := Open(fault, "/", m.base, Config{IndexIntervalBytes: 300})
		fault.Clear()
		if err != nil {
			continue
		}
		m.check(t, s, newRandom(t))
		must(t, s.Close())
		if step > fault.Count() {
			return
		}
	}
}

func TestOpenFailsOnCorruptData(t *testing.T) {
	mem := vfs.NewMem()
	m, _, err := writeSegment(t, mem)
	must(t, err)
	content := append(m.bytes(), "not a batch"...)
	must(t, vfs.WriteFileAtomic(mem, "/"+Name(m.base, LogExtension, ""), content))
	if _, err := Open(mem, "/", m.base, Config{}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("open: %v, want ErrCorrupt", err)
	}
}
