package reader

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
)

// newVerifier returns a reader of four batches in one segment, which an earlier process has
// written, and the number of damaged segments that the reader has reported.
func newVerifier(t *testing.T, fsys vfs.FS) (r Reader, h *segmentlist.Handle, reported *int) {
	t.Helper()
	var list segmentlist.Current
	var o offsets.Offsets
	handles := segmenttest.Segments(t, segmenttest.Dir(t, fsys), [][]byte{nil, nil, nil, nil},
		[][]byte{nil})
	handles[0].SetUnverified()
	list.Publish(handles)
	o.Restore(0, 5, 5, &producer.State{})
	reported = new(int)
	return Reader{List: &list, Offsets: &o, Dir: segmenttest.Path, Verification: new(atomic.Int32),
		Damaged: func(*segmentlist.Handle) { *reported++ }}, handles[0], reported
}

// flipBatch flips a bit of the records of the batch at an offset.
func flipBatch(t *testing.T, fsys vfs.FS, h *segmentlist.Handle, offset int64) {
	t.Helper()
	position, err := h.Position(offset)
	if err != nil {
		t.Fatal(err)
	}
	file, err := fsys.OpenReadWrite(filepath.Join(segmenttest.Path,
		segment.Name(h.Base(), segment.LogExtension, "")))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	position += record.HeaderBytes
	_, err = file.ReadAt(b, position)
	b[0] ^= 1
	if err == nil {
		_, err = file.WriteAt(b, position)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedBatchesAreNotReturned checks that a read ends before a damaged batch, that a read that
// begins at the damaged batch fails, and that the damage is reported once.
func TestDamagedBatchesAreNotReturned(t *testing.T) {
	fsys := vfs.NewMem()
	r, h, reported := newVerifier(t, fsys)
	flipBatch(t, fsys, h, 2)
	slice, err := r.Read(0, 5, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := bounds(t, slice); from != 0 || to != 2 || !slice.More {
		t.Errorf("read returned the offsets [%d, %d), more %v", from, to, slice.More)
	}
	slice.Release()
	if _, err := r.Read(2, 5, 1<<20, true); !errors.Is(err, record.ErrCorrupt) ||
		!errors.Is(err, segmentlist.ErrStorage) {
		t.Errorf("read of the damaged batch: %v", err)
	}
	slice, err = r.ReadReplica(3, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := bounds(t, slice); from != 3 || to != 4 {
		t.Errorf("read behind the damage returned the offsets [%d, %d)", from, to)
	}
	slice.Release()
	if *reported != 1 || !h.Damaged.Load() {
		t.Errorf("damage reported %d times; segment marked: %v", *reported, h.Damaged.Load())
	}
	r.Verification.Store(int32(VerifyNever))
	if _, err := r.Read(2, 5, 1<<20, true); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("read without verification of a segment that is marked as damaged: %v", err)
	}
}

// TestBatchesAreVerifiedOnce checks that sequential reads verify each batch once, and that reads
// verify nothing if verification is off or the scrub has verified the segment.
func TestBatchesAreVerifiedOnce(t *testing.T) {
	for name, prepare := range map[string]func(r Reader, h *segmentlist.Handle){
		"read before": func(r Reader, _ *segmentlist.Handle) {
			for _, offset := range []int64{0, 2} {
				slice, err := r.Read(offset, offset+2, 1<<20, true)
				if err != nil {
					t.Fatal(err)
				}
				slice.Release()
			}
		},
		"scrubbed": func(_ Reader, h *segmentlist.Handle) { h.SetVerified() },
		"off":      func(r Reader, _ *segmentlist.Handle) { r.Verification.Store(int32(VerifyNever)) },
	} {
		fsys := vfs.NewMem()
		r, h, reported := newVerifier(t, fsys)
		prepare(r, h)
		flipBatch(t, fsys, h, 2)
		slice, err := r.Read(2, 5, 1<<20, true)
		if err != nil || *reported != 0 {
			t.Fatalf("%s: %v, %d reports", name, err, *reported)
		}
		slice.Release()
	}
	fsys := vfs.NewMem()
	r, h, _ := newVerifier(t, fsys)
	slice, err := r.Read(2, 5, 1<<20, true) // not sequential: begins above the verified batches
	if err != nil {
		t.Fatal(err)
	}
	slice.Release()
	flipBatch(t, fsys, h, 2)
	if _, err := r.Read(2, 5, 1<<20, true); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("second read of a range that is not contiguous: %v", err)
	}
}

// TestAlwaysVerifiesSealedSegments checks that VerifyAlways finds damage in batches that were
// verified before, and does not verify the active segment.
func TestAlwaysVerifiesSealedSegments(t *testing.T) {
	fsys := vfs.NewMem()
	r, h, reported := newVerifier(t, fsys)
	h.SetVerified()
	active := r.List.Handles()[1]
	r.Verification.Store(int32(VerifyAlways))
	flipBatch(t, fsys, h, 2)
	flipBatch(t, fsys, active, 4)
	if _, err := r.Read(2, 5, 1<<20, true); !errors.Is(err, record.ErrCorrupt) || *reported != 1 {
		t.Errorf("read of a damaged batch: %v, %d reports", err, *reported)
	}
	slice, err := r.Read(4, 5, 1<<20, true)
	if err != nil {
		t.Fatalf("read of the active segment: %v", err)
	}
	slice.Release()
}
