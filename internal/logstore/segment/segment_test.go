package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

func TestNameHas20Digits(t *testing.T) {
	for _, c := range []struct {
		name string
		base int64
		rest string
		ok   bool
	}{
		{"00000000000000000000.log", 0, ".log", true},
		{"00000000000000524288.timeindex.cleaned", 524288, ".timeindex.cleaned", true},
		{"09223372036854775807.log", math.MaxInt64, ".log", true},
		{"09223372036854775808.log", 0, "", false},
		{"0000000000000000000.log", 0, "", false},
		{"000000000000000000001.log", 0, "", false},
		{"-0000000000000000001.log", 0, "", false},
		{"00000000000000000000", 0, "", false},
		{"leader-epoch-checkpoint", 0, "", false},
		{"", 0, "", false},
	} {
		base, rest, ok := ParseName(c.name)
		if ok != c.ok || ok && (base != c.base || rest != c.rest) {
			t.Errorf("ParseName(%s) = %d, %q, %v", c.name, base, rest, ok)
		}
		if ok && Name(base, "", rest) != c.name {
			t.Errorf("Name returns %s, want %s", Name(base, "", rest), c.name)
		}
	}
}

func TestAppendRejectsBatchesThatCannotBeReadBack(t *testing.T) {
	s, err := Create(vfs.NewMem(), "/", 100, "", Config{})
	must(t, err)
	must(t, s.Append(batchOf(t, 100, 3, 1, 10)))
	whole := batchOf(t, 103, 1, 1, 10)
	for name, b := range map[string]record.Batch{
		"offsets that do not ascend": batchOf(t, 102, 3, 1, 10),
		"an offset below the base":   batchOf(t, 5, 1, 1, 10),
		"incomplete batch":           whole[:len(whole)-1],
		"two batches":                append(bytes.Clone(whole), batchOf(t, 104, 1, 1, 10)...),
		"not a batch":                make(record.Batch, 100),
		"empty":                      nil,
	} {
		if err := s.Append(b); err == nil {
			t.Errorf("%s was appended", name)
		}
	}
	must(t, s.Append(whole))
	if s.NextOffset() != 104 {
		t.Errorf("next offset %d, want 104", s.NextOffset())
	}
}

// TestFitsKeepsTheIndexesWithinBounds checks that offsets and positions in index entries fit into
// 31 bits, and that one entry of the time index is reserved for the seal.
func TestFitsKeepsTheIndexesWithinBounds(t *testing.T) {
	const base = 1 << 40
	s, err := Create(vfs.NewMem(), "/", base, "", Config{})
	must(t, err)
	for offset, want := range map[int64]bool{base + math.MaxInt32: true,
		base + math.MaxInt32 + 1: false} {
		if b := batchOf(t, offset, 1, 1, 10); s.Fits(record.Whole(b)) != want {
			t.Errorf("offset base%+d fits: %v, want %v", offset-base, !want, want)
		}
	}
	if err := s.Append(batchOf(t, base+math.MaxInt32+1, 1, 1, 10)); !errors.Is(err, ErrFull) {
		t.Errorf("append beyond the relative offset: %v", err)
	}

	cfg := Config{IndexIntervalBytes: 1, IndexBytesMax: 5 * TimeEntryBytes}
	s, err = Create(vfs.NewMem(), "/", 0, "", cfg)
	must(t, err)
	offset := int64(0)
	for ; s.Fits(record.Whole(batchOf(t, offset, 1, offset, 10))); offset++ {
		must(t, s.Append(batchOf(t, offset, 1, offset, 10)))
	}
	// The first batch has no index entry. Each of four more batches has one index entry, and the
	// fifth entry of the time index is reserved.
	if offset != 5 {
		t.Errorf("%d batches fit, want 5", offset)
	}
	must(t, s.Seal())
}

func TestSealedSegmentRejectsAppendsUntilTruncated(t *testing.T) {
	s, err := Create(vfs.NewMem(), "/", 0, "", Config{})
	must(t, err)
	must(t, s.Append(batchOf(t, 0, 1, 1, 10)))
	must(t, s.Seal())
	if err := s.Append(batchOf(t, 1, 1, 1, 10)); !errors.Is(err, ErrSealed) {
		t.Errorf("append to a sealed segment: %v", err)
	}
	must(t, s.Truncate(1))
	must(t, s.Append(batchOf(t, 1, 1, 1, 10)))
}

func TestRenameAndRemoveApplyToAllFiles(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Create(mem, "/", 7, ".cleaned", Config{})
	must(t, err)
	must(t, s.Append(batchOf(t, 7, 1, 1, 10)))
	must(t, s.Seal())
	wantNames := func(want ...string) {
		t.Helper()
		entries, err := mem.ReadDir("/")
		must(t, err)
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if len(names) != len(want) {
			t.Fatalf("files %v, want %v", names, want)
		}
		for i := range want {
			if names[i] != want[i] {
				t.Errorf("files %v, want %v", names, want)
			}
		}
	}
	for _, suffix := range []string{".cleaned", ".swap", "", ".deleted"} {
		must(t, s.Rename(suffix))
		wantNames(Name(7, IndexExtension, suffix), Name(7, LogExtension, suffix),
			Name(7, TimeIndexExtension, suffix))
	}
	must(t, s.Remove())
	wantNames()
	// Reads still succeed after Remove, until Close.
	if _, err := s.HeaderAt(0); err != nil {
		t.Errorf("read after remove: %v", err)
	}
	must(t, s.Close())
	wantNames()
	if _, err := Open(mem, "/", 7, Config{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a removed segment: %v", err)
	}
}

func TestModTimeIsKeptAndCanBeSet(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Create(mem, "/", 0, "", Config{})
	must(t, err)
	if s.ModTime().IsZero() {
		t.Error("a new segment has no modification time")
	}
	want := time.UnixMilli(1_500_000_000_000)
	must(t, s.Append(batchOf(t, 0, 1, 1, 10)))
	must(t, s.Seal())
	must(t, s.SetModTime(want))
	must(t, s.Close())
	s, err = Open(mem.CrashClone(), "/", 0, Config{})
	must(t, err)
	if !s.ModTime().Equal(want) {
		t.Errorf("time %v, want %v", s.ModTime(), want)
	}
}

// TestOpenRepairsIndexes checks that Open detects each of these kinds of damage to the index files
// and repairs the files.
func TestOpenRepairsIndexes(t *testing.T) {
	mem := vfs.NewMem()
	m := &model{base: 10}
	s, err := Create(mem, "/", m.base, "", Config{})
	must(t, err)
	for i := range int64(100) {
		b := batchOf(t, 10+i, 1, 1000+i, 300)
		must(t, s.Append(b))
		m.batches = append(m.batches, b)
	}
	must(t, s.Close())
	offsetsName, timesName := "/"+Name(10, IndexExtension, ""), "/"+Name(10, TimeIndexExtension, "")
	offsets, err := mem.ReadFile(offsetsName)
	must(t, err)
	times, err := mem.ReadFile(timesName)
	must(t, err)
	for name, damage := range map[string]func() (o, ti []byte){
		"none":              func() (o, ti []byte) { return offsets, times },
		"no offsets":        func() (o, ti []byte) { return nil, times },
		"no times":          func() (o, ti []byte) { return offsets, nil },
		"offsets truncated": func() (o, ti []byte) { return offsets[:16], times },
		"times truncated to one entry": func() (o, ti []byte) {
			return offsets, times[:TimeEntryBytes]
		},
		"incomplete entry": func() (o, ti []byte) {
			return offsets[:len(offsets)-3], times[:len(times)-5]
		},
		"padded with zeros, as Kafka does": func() (o, ti []byte) {
			return padded(offsets), padded(times)
		},
		"zeros": func() (o, ti []byte) {
			return make([]byte, len(offsets)), make([]byte, len(times))
		},
		"ones": func() (o, ti []byte) { return ones(offsets), ones(times) },
		"last position changed": func() (o, ti []byte) {
			return changed(offsets, len(offsets)-4, 61), times
		},
		"last offset changed": func() (o, ti []byte) {
			return changed(offsets, len(offsets)-8, 90), times
		},
		"last timestamp changed": func() (o, ti []byte) {
			return offsets, changed(times, len(times)-8, 5000)
		},
		"offset of the last timestamp changed": func() (o, ti []byte) {
			return offsets, changed(times, len(times)-4, 98)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, ti := damage()
			must(t, vfs.WriteFileAtomic(mem, offsetsName, o))
			must(t, vfs.WriteFileAtomic(mem, timesName, ti))
			s, err := Open(mem, "/", 10, Config{})
			must(t, err)
			m.check(t, s, newRandom(t))
			must(t, s.Close())
			wantFiles(t, mem, m, defaultIndexIntervalBytes)
		})
	}
}

func padded(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 240)...) }
func ones(b []byte) []byte   { return bytes.Repeat([]byte{0xff}, len(b)) }
func changed(b []byte, index int, to uint32) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[index:], to)
	return b
}

// TestDamagedIndexEntryInTheMiddleIsSkipped checks that a lookup ignores an index entry that does
// not point at a batch (docs/internals/format/index-files.md).
func TestDamagedIndexEntryInTheMiddleIsSkipped(t *testing.T) {
	mem := vfs.NewMem()
	m := &model{}
	s, err := Create(mem, "/", 0, "", Config{})
	must(t, err)
	for i := range int64(100) {
		b := batchOf(t, i, 1, 1000+i, 300)
		must(t, s.Append(b))
		m.batches = append(m.batches, b)
	}
	must(t, s.Close())
	name := "/" + Name(0, IndexExtension, "")
	offsets, err := mem.ReadFile(name)
	must(t, err)
	for _, to := range []uint32{17, math.MaxUint32, 1 << 30, uint32(m.position(90))} {
		must(t, vfs.WriteFileAtomic(mem, name, changed(offsets, 2*OffsetEntryBytes+4, to)))
		s, err = Open(mem, "/", 0, Config{})
		must(t, err)
		for offset := range int64(101) {
			if got, err := s.Position(offset); err != nil || got != m.position(offset) {
				t.Fatalf("position of %d with an entry at %d: %d, %v; want %d", offset, to, got,
					err, m.position(offset))
			}
		}
		must(t, s.Close())
	}
}
