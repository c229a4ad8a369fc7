package segmentlist

import (
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

const dir = "/data/tickets-0"

// handles returns n segments of two records each, which begin at the offsets 0, 2, 4 and so on.
func handles(t *testing.T, fsys *vfs.Mem, n int) (all []*Handle) {
	t.Helper()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	config := segment.Config{Handles: vfs.NewHandles(fsys, 100)}
	for i := range n {
		base := int64(2 * i)
		s, err := segment.Create(fsys, dir, base, "", config)
		if err != nil {
			t.Fatal(err)
		}
		b := record.Batch(storetest.Keyed(t, "a", "b"))
		b.SetBaseOffset(base)
		if err := s.Append(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, NewHandle(s, slog.New(slog.DiscardHandler)))
	}
	return all
}

func exists(fsys vfs.FS, base int64) bool {
	_, err := fsys.Stat(filepath.Join(dir, segment.Name(base, segment.LogExtension, "")))
	return err == nil
}

// TestDoomedFilesExistUntilTheLastRelease checks that the files of a doomed segment exist until its
// last reader has released it.
func TestDoomedFilesExistUntilTheLastRelease(t *testing.T) {
	mem := vfs.NewMem()
	all := handles(t, mem, 3)
	var current Current
	current.Publish(all)
	list := current.Acquire()
	reader := list.Handles[0]
	reader.Acquire()
	all[0].Doomed.Store(true)
	current.Publish(all[1:]).Release()
	if !exists(mem, 0) {
		t.Fatal("a segment is deleted although a list and a reader have it")
	}
	list.Release()
	if !exists(mem, 0) {
		t.Fatal("a segment is deleted although a reader has it")
	}
	if _, err := reader.HeaderAt(0); err != nil {
		t.Errorf("read from a doomed segment: %v", err)
	}
	reader.Release()
	if exists(mem, 0) || !exists(mem, 2) {
		t.Errorf("after the last release: segment 0 %t, segment 2 %t", exists(mem, 0), exists(mem, 2))
	}
	current.Publish(nil).Release()
	if current.Acquire() != nil || current.Handles() != nil || !exists(mem, 2) {
		t.Error("a closed log has a list, or lost a segment")
	}
}

// TestListsAreAcquiredDuringReplacement acquires lists while the current list is being replaced.
// Each list that a reader holds is usable.
func TestListsAreAcquiredDuringReplacement(t *testing.T) {
	all := handles(t, vfs.NewMem(), 4)
	var current Current
	current.Publish(all)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 2000 {
				list := current.Acquire()
				if _, err := list.Active().HeaderAt(0); err != nil {
					t.Errorf("read from an acquired list: %v", err)
				}
				list.Release()
			}
		})
	}
	for i := range 2000 {
		current.Publish(all[i%3:]).Release()
	}
	readers.Wait()
}

func TestSegmentsAreFound(t *testing.T) {
	all := handles(t, vfs.NewMem(), 4)
	for offset, want := range []int{0, 0, 1, 1, 2, 2, 3, 3, 3} {
		if got := Floor(all, int64(offset)); got != want {
			t.Errorf("offset %d is in segment %d, want %d", offset, got, want)
		}
	}
	segments := Segments(all)
	for name, test := range map[string]struct {
		sources []*segment.Segment
		first   int
		ok      bool
	}{
		"all":             {segments, 0, true},
		"two in between":  {segments[1:3], 1, true},
		"the last":        {segments[3:], 3, true},
		"none":            {nil, 0, false},
		"with a gap":      {[]*segment.Segment{segments[0], segments[2]}, 0, false},
		"beyond the last": {[]*segment.Segment{segments[3], segments[0]}, 0, false},
	} {
		if first, ok := Find(all, test.sources); first != test.first || ok != test.ok {
			t.Errorf("%s: found at %d (%t), want %d (%t)", name, first, ok, test.first, test.ok)
		}
	}
}

// TestAppendedRecordsAreCounted checks that a segment's records are counted only if this process
// has appended all of them.
func TestAppendedRecordsAreCounted(t *testing.T) {
	h := handles(t, vfs.NewMem(), 1)[0]
	batch := record.Whole(record.Batch(storetest.Keyed(t, "a", "b", "c")))
	if n, counted := h.CountRecords(); counted || n != 2 {
		t.Errorf("%d records (%t) of which none was counted, want the span 2", n, counted)
	}
	var count appendedCount
	count.AddLocked(int64(batch.SizeBytes()), batch)
	count.AddLocked(2*int64(batch.SizeBytes()), batch)
	if n, ok := count.count(2 * int64(batch.SizeBytes())); n != 6 || !ok {
		t.Errorf("%d records (%t), want 6", n, ok)
	}
	count.AddLocked(5*int64(batch.SizeBytes()), batch) // as if something else was appended before
	if n, ok := count.count(5 * int64(batch.SizeBytes())); ok {
		t.Errorf("%d records are counted although some were not", n)
	}
}
