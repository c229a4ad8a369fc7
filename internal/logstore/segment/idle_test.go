package segment

import (
	"errors"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// TestIdleSegmentHasNoFileOpen checks that a segment needs one file descriptor while it has few
// index entries, and none once it is idle. The files are opened again when they are used.
func TestIdleSegmentHasNoFileOpen(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	handles := vfs.NewHandles(fault, 0)
	s, err := Create(fault, "/", 0, "", Config{IndexIntervalBytes: 100, Handles: handles,
		UnwrittenEntriesMax: 20})
	must(t, err)
	m := &model{}
	wantOpen := func(when string, want int) {
		t.Helper()
		if got := handles.Open(); got != want {
			t.Errorf("%s: %d open files, want %d", when, got, want)
		}
	}
	wantOpen("created", 1)
	appendSome(t, s, m, 5)
	must(t, s.Sync())
	must(t, s.SyncIdleIndexes())
	wantOpen("with a few index entries", 1)
	handles.CloseIdle()
	handles.CloseIdle()
	wantOpen("idle", 0)

	appendSome(t, s, m, 20)
	must(t, s.Sync()) // writes the index entries
	wantOpen("with written index entries", 3)
	must(t, s.SyncIdleIndexes()) // entries were added since the previous call
	handles.CloseIdle()
	handles.CloseIdle()
	wantOpen("with unsynced index entries", 2)
	must(t, s.SyncIdleIndexes())
	wantOpen("idle again", 0)

	m.check(t, s, newRandom(t))
	appendSome(t, s, m, 3)
	must(t, s.Seal())
	handles.CloseIdle()
	handles.CloseIdle()
	wantOpen("sealed", 0)
	m.check(t, s, newRandom(t))
	m.checkIndexes(t, fault, "/")
	must(t, s.Close())
}

// TestFailedSyncOfIdleIndexesBreaksTheSegment checks that a failed sync of idle indexes breaks the
// segment, because the kernel may have dropped the entries. A lack of file descriptors does not
// break the segment.
func TestFailedSyncOfIdleIndexesBreaksTheSegment(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	s, err := Create(fault, "/", 0, "", Config{IndexIntervalBytes: 100, UnwrittenEntriesMax: 1})
	must(t, err)
	m := &model{}
	appendSome(t, s, m, 5)
	must(t, s.Sync())
	must(t, s.SyncIdleIndexes())
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.timeindex", Times: 1})
	if err := s.SyncIdleIndexes(); !errors.Is(err, syscall.EIO) || s.Broken() == nil {
		t.Fatalf("error %v, broken %v; want EIO and a broken segment", err, s.Broken())
	}
	if err := s.Append(batchOf(t, m.next(), 1, 1, 1)); err == nil {
		t.Error("append after a failed sync succeeded")
	}
}

// TestRecoverKeepsToTheLimitOfOpenFiles recovers many segments at once, as a start does. Their
// index files have to stay open until they are synced. If more files are open than the limit
// allows, Recover syncs and closes the index files at once.
func TestRecoverKeepsToTheLimitOfOpenFiles(t *testing.T) {
	mem := vfs.NewMem()
	const segments = 10
	models := make([]*model, segments)
	for i := range models {
		models[i] = &model{base: int64(i) * 1000}
		s, err := Create(mem, "/", models[i].base, "", Config{IndexIntervalBytes: 100})
		must(t, err)
		appendSome(t, s, models[i], 9)
		must(t, s.Sync())
	}
	const limit = 5
	handles := vfs.NewHandles(mem, limit)
	for _, m := range models {
		s, _, err := Recover(mem, "/", m.base,
			Config{IndexIntervalBytes: 100, Handles: handles}, nil)
		must(t, err)
		if open := handles.Open(); open > limit+2 {
			t.Fatalf("%d files are open, want %d or little more", open, limit)
		}
		m.check(t, s, newRandom(t))
	}
}
