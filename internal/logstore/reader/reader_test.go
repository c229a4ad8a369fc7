package reader

import (
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
)

// newReader returns a reader of the offsets [1, 6) in two segments. The offsets below 5 are
// replicated.
func newReader(t *testing.T) (Reader, *segmentlist.Current) {
	t.Helper()
	var list segmentlist.Current
	var o offsets.Offsets
	list.Publish(segmenttest.Segments(t, segmenttest.Dir(t, vfs.NewMem()), [][]byte{nil, nil, nil},
		[][]byte{nil, nil, nil}))
	o.Restore(1, 5, 6, &producer.State{})
	return Reader{List: &list, Offsets: &o, Dir: segmenttest.Path}, &list
}

// bounds returns the first offset in a slice and the offset after the slice's last offset.
func bounds(t *testing.T, s *Slice) (from, to int64) {
	t.Helper()
	content := make([]byte, s.Length)
	if _, err := s.File.ReadAt(content, s.Position); err != nil {
		t.Fatal(err)
	}
	from = -1
	for len(content) > 0 {
		b, rest, err := record.Next(content)
		if err != nil {
			t.Fatal(err)
		}
		if from < 0 {
			from = b.BaseOffset()
		}
		to, content = b.NextOffset(), rest
	}
	return from, to
}

func TestReadsEndAtTheirLimit(t *testing.T) {
	r, _ := newReader(t)
	for name, test := range map[string]struct {
		read                func() (*Slice, error)
		from, to, lengthMax int64
		more                bool
	}{
		"to the end of a segment": {func() (*Slice, error) { return r.Read(1, 5, 1<<20, false) }, 1, 3, 0,
			true},
		"to the high watermark": {func() (*Slice, error) { return r.Read(3, 5, 1<<20, false) }, 3, 5, 0,
			false},
		"to the log end": {func() (*Slice, error) { return r.Read(4, 90, 1<<20, false) }, 4, 6,
			0, false},
		"of a replica": {func() (*Slice, error) { return r.ReadReplica(4, 1<<20, false) }, 4,
			6, 0, false},
		"of committed records": {func() (*Slice, error) { return r.ReadCommitted(3, 6, 1<<20, false) },
			3, 5, 0, false},
		"of the first batch only": {func() (*Slice, error) { return r.Read(3, 6, 1, true) }, 3, 4, 0,
			true},
	} {
		slice, err := test.read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if from, to := bounds(t, slice); from != test.from || to != test.to ||
			slice.More != test.more {
			t.Errorf("a read %s: [%d, %d), more %t", name, from, to, slice.More)
		}
		slice.Release()
	}
	if slice, err := r.Read(3, 6, 1, false); err != nil || slice.Length != 0 || !slice.More {
		t.Errorf("a read without room: %+v, %v", slice, err)
	}
}

func TestReadsOutsideTheLogFail(t *testing.T) {
	r, list := newReader(t)
	for _, offset := range []int64{0, 7} {
		if _, err := r.Read(offset, 90, 100, true); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("a read at %d: %v", offset, err)
		}
	}
	held, err := r.Read(2, 5, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	list.Publish(nil).Release()
	for _, read := range []func() (*Slice, error){
		func() (*Slice, error) { return r.Read(2, 5, 100, true) },
		func() (*Slice, error) { return r.ReadReplica(2, 100, true) },
		func() (*Slice, error) { return r.ReadCommitted(2, 5, 100, true) },
	} {
		if _, err := read(); !errors.Is(err, segmentlist.ErrClosed) {
			t.Errorf("a read from a closed log: %v", err)
		}
	}
	if from, _ := bounds(t, held); from != 2 { // the reader still holds the segment
		t.Errorf("the slice begins at %d", from)
	}
	held.Release()
}
