package sidecars

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// fixture contains the parts of a log that sidecars use, with two segments of large records, but no
// Log.
type fixture struct {
	set         Set
	list        segmentlist.Current
	fsys        *vfs.Mem
	compact     bool
	truncations atomic.Int64
	owned       bool

	maintain, mu sync.Mutex
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{fsys: vfs.NewMem(), compact: true, owned: true}
	batch := func() []byte {
		return storetest.Batch{Keys: []string{"a", "b"}, Value: strings.Repeat("v", 300)}.Bytes(t)
	}
	dir := segmenttest.Dir(t, f.fsys)
	all := segmenttest.Segments(t, dir, [][]byte{batch(), batch()}, [][]byte{batch()})
	f.list.Publish(all)
	f.set = New(Source{
		Settings: func() topicconfig.Settings {
			return storetest.Settings(func(s *topicconfig.Settings) { s.Compact = f.compact })
		},
		Acquire: f.list.Acquire, CleanableEnd: func() int64 { return 4 },
		Truncations: f.truncations.Load,
		OwnsSealed: func(h *segmentlist.Handle, truncations int64) bool {
			return f.owned && truncations == f.truncations.Load() && h == all[0]
		}}, f.fsys, dir.Path, slog.New(slog.DiscardHandler), &f.maintain, &f.mu)
	f.set.Enable(true)
	return f
}

func (f *fixture) sealed() *segmentlist.Handle { return f.list.Load().Handles[0] }

func (f *fixture) build(t *testing.T) error {
	return f.set.Build(t.Context(), f.sealed(),
		Options{Options: keys.Options{MemoryBytes: MemoryBytes}})
}

// exists reports whether the sealed segment's key sidecar is in the directory.
func (f *fixture) exists() bool {
	_, err := f.fsys.Stat(f.set.Name(0))
	return err == nil
}

func TestBuiltSidecarHasTheKeys(t *testing.T) {
	f := newFixture(t)
	if err := f.build(t); err != nil {
		t.Fatal(err)
	}
	reader, err := f.set.Open(f.sealed(), true)
	if err != nil {
		t.Fatal(err)
	}
	newest := reader.Newest(f.set.Salt.Load().Hasher().Hash([]byte("b")))
	var ordinals []uint32
	for newest.Next() {
		ordinals = append(ordinals, newest.Ordinal())
	}
	if err := errors.Join(newest.Err(), reader.Close()); err != nil ||
		!slices.Equal(ordinals, []uint32{3, 1}) {
		t.Errorf("entries %v of a key, want those of the records 3 and 1; %v", ordinals, err)
	}
	if counts, ok := f.set.CountsOf(f.sealed()); !ok || counts.Records != 4 {
		t.Errorf("counts %+v (%t), want 4 records", counts, ok)
	}
}

// TestOutdatedSidecarIsNotPublished checks that if a segment is truncated or replaced while its
// sidecar is being built, the sidecar is not published.
func TestOutdatedSidecarIsNotPublished(t *testing.T) {
	f := newFixture(t)
	f.owned = false
	if err := f.build(t); err == nil || f.exists() {
		t.Errorf("a segment that is not in the log: %v, exists %t", err, f.exists())
	}
	f.owned = true
	if err := f.build(t); err != nil || !f.exists() {
		t.Fatalf("a segment of the log: %v, exists %t", err, f.exists())
	}
}

func TestSidecarsOfSmallRecordsAreNotKept(t *testing.T) {
	if !Keeps(1000, 10) || Keeps(999, 10) || !Keeps(0, 0) {
		t.Error("the limit is not 100 bytes for each record")
	}
	f := newFixture(t)
	if n := EstimateRecords(f.sealed()); n != 4 {
		t.Errorf("%d records are estimated, want 4", n)
	}
}
