package snapshots

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// produced returns a batch of producer 7 with one record.
func produced(t *testing.T, sequence int32) []byte {
	t.Helper()
	return storetest.Batch{Producer: 7, Sequence: sequence, Keys: []string{"k"}}.Bytes(t)
}

// newLog returns three segments of two batches each. The batches' sequence numbers equal their
// offsets.
func newLog(t *testing.T, fsys vfs.FS) (Files, []*segmentlist.Handle) {
	t.Helper()
	dir := segmenttest.Dir(t, fsys)
	var segments [][][]byte
	for base := int32(0); base < 6; base += 2 {
		segments = append(segments, [][]byte{produced(t, base), produced(t, base+1)})
	}
	return New(dir), segmenttest.Segments(t, dir, segments...)
}

func offsetsOf(t *testing.T, fsys vfs.FS) (offsets []int64) {
	t.Helper()
	files, err := swap.List(fsys, segmenttest.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Kind == swap.SnapshotSuffix {
			offsets = append(offsets, f.Base)
		}
	}
	return offsets
}

// latest returns producer 7's last offset in a state.
func latest(state producer.State) int64 {
	if all := state.Producers(); len(all) == 1 {
		return int64(all[0].LastSequence)
	}
	return -1
}

// TestStateDoesNotDependOnSnapshots checks that the state at an offset is the same whatever
// snapshots exist, even if a snapshot is damaged.
func TestStateDoesNotDependOnSnapshots(t *testing.T) {
	for name, prepare := range map[string]func(*Files, []*segmentlist.Handle) error{
		"none": func(*Files, []*segmentlist.Handle) error { return nil },
		"one":  func(p *Files, all []*segmentlist.Handle) error { return p.EnsureAt(all, 2) },
		"two": func(p *Files, all []*segmentlist.Handle) error {
			return errors.Join(p.EnsureAt(all, 2), p.EnsureAt(all, 4))
		},
		"a damaged one": func(p *Files, all []*segmentlist.Handle) error {
			return errors.Join(p.EnsureAt(all, 2), p.Write(4, []byte("damaged")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, all := newLog(t, vfs.NewMem())
			if err := prepare(&files, all); err != nil {
				t.Fatal(err)
			}
			for offset := int64(1); offset <= 6; offset++ {
				state, _, err := files.StateAt(all, offset, offset)
				if err != nil || latest(state) != offset-1 {
					t.Errorf("state at %d: sequence %d, %v", offset, latest(state), err)
				}
			}
		})
	}
}

// TestPruneKeepsWhatIsNeeded checks that Prune keeps the snapshots above the limit, the snapshots
// at base offsets of segments, and the two newest snapshots below the limit.
func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	mem := vfs.NewMem()
	files, all := newLog(t, mem)
	for offset := int64(1); offset <= 6; offset++ {
		if err := files.Write(offset, (&producer.State{}).Encode(offset)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Prune(all, 5); err != nil {
		t.Fatal(err)
	}
	if got := offsetsOf(t, mem); !slices.Equal(got, []int64{2, 4, 5, 6}) {
		t.Errorf("the snapshots at %v are left", got)
	}
	listed, err := swap.List(mem, segmenttest.Path)
	if err = errors.Join(err, files.RemoveAbove(listed, 4)); err != nil {
		t.Fatal(err)
	}
	if got := offsetsOf(t, mem); !slices.Equal(got, []int64{2, 4}) {
		t.Errorf("the snapshots at %v are left below 4", got)
	}
}

// TestSnapshotIsWrittenWhenTheDiskHasRoom checks that on a full disk a deletion continues, and the
// snapshot is written when there is space.
func TestSnapshotIsWrittenWhenTheDiskHasRoom(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	files, all := newLog(t, fault)
	name := segment.Name(4, swap.SnapshotSuffix, "")
	fault.Inject(vfs.Rule{Name: name + vfs.TemporarySuffix, Err: syscall.ENOSPC})
	if err := files.EnsureForDeletion(all, 2); err != nil {
		t.Fatal(err)
	}
	if err := files.WritePending(4); err != nil || slices.Contains(offsetsOf(t, fault), 4) {
		t.Errorf("without room: %v, snapshots at %v", err, offsetsOf(t, fault))
	}
	fault.Clear()
	if err := files.WritePending(4); err != nil {
		t.Fatal(err)
	}
	content, err := fault.ReadFile(filepath.Join(segmenttest.Path, name))
	if err != nil {
		t.Fatal(err)
	}
	if state, err := producer.Decode(content, 4); err != nil || latest(state) != 3 {
		t.Errorf("the snapshot has sequence %d, %v", latest(state), err)
	}
}
