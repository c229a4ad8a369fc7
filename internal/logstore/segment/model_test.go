package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestSegmentEqualsListOfBatches applies random operations to a segment and to a model, which is a
// list of batches. All reads of the segment must return the same results as the model.
func TestSegmentEqualsListOfBatches(t *testing.T) {
	for seed := range seed.Sequence(t, 6) {
		random := rand.New(rand.NewPCG(seed, 0))
		mem := vfs.NewMem()
		m := &model{base: random.Int64N(3) * 1_000_000_007}
		cfg := Config{IndexIntervalBytes: 1 + random.IntN(2000),
			UnwrittenEntriesMax: 1 + random.IntN(10)}
		s, err := Create(mem, "/", m.base, "", cfg)
		must(t, err)
		for step := range 150 {
			s = randomStep(t, mem, s, m, cfg, random)
			if step%5 == 0 {
				m.check(t, s, random)
			}
		}
		m.check(t, s, random)
		must(t, s.Close())
		m.checkIndexes(t, mem, "/")
	}
}

// randomStep applies a random operation to a segment and its model.
func randomStep(t *testing.T, mem *vfs.Mem, s *Segment, m *model, cfg Config,
	random *rand.Rand) *Segment {
	t.Helper()
	var err error
	switch random.IntN(13) {
	case 0:
		offset := m.base + random.Int64N(m.next()-m.base+5)
		must(t, s.Truncate(offset))
		m.truncate(offset)
	case 1:
		must(t, s.Sync())
	case 2: // seal, check the indexes, make writable again
		must(t, s.Seal())
		m.checkIndexes(t, mem, "/")
		must(t, s.Truncate(m.next()))
	case 3:
		must(t, s.Close())
		s, err = Open(mem, "/", m.base, cfg)
		must(t, err)
	case 4: // an unclean stop, without Close
		must(t, s.Sync())
		var found Recovered
		s, found, err = Recover(mem, "/", m.base, cfg, nil)
		must(t, err)
		if found.Cause != nil || found.TruncatedBytes != 0 ||
			found.Batches != int64(len(m.batches)) {
			t.Fatalf("recovered %+v of %d batches", found, len(m.batches))
		}
	case 5:
		must(t, s.SyncIdleIndexes())
		s.cfg.Handles.CloseIdle()
	default:
		for range 1 + random.IntN(8) {
			b := m.randomBatch(t, random)
			must(t, s.Append(b))
			m.batches = append(m.batches, b)
		}
	}
	return s
}

// TestIndexFilesAreKafkasByteForByte checks that the index files are equal, byte for byte, to the
// output of Kafka's algorithm in model.indexes. This holds for appended, rebuilt and recovered
// indexes.
func TestIndexFilesAreKafkasByteForByte(t *testing.T) {
	random := newRandom(t)
	for _, interval := range []int{1, 500, 4096} {
		mem := vfs.NewMem()
		m := &model{base: 77}
		cfg := Config{IndexIntervalBytes: interval, UnwrittenEntriesMax: 1}
		s, err := Create(mem, "/", m.base, "", cfg)
		must(t, err)
		for i := range 300 {
			b := m.randomBatch(t, random)
			must(t, s.Append(b))
			m.batches = append(m.batches, b)
			if i%37 == 0 {
				must(t, s.Sync()) // writes entries earlier than Seal; the files must be the same
			}
		}
		must(t, s.Seal())
		wantFiles(t, mem, m, interval)
		must(t, s.Close())
		wantFiles(t, mem, m, interval)

		must(t, mem.Remove("/"+Name(m.base, IndexExtension, "")))
		s, err = Open(mem, "/", m.base, cfg)
		must(t, err)
		wantFiles(t, mem, m, interval)
		must(t, s.Close())

		s, _, err = Recover(mem, "/", m.base, cfg, nil)
		must(t, err)
		wantFiles(t, mem, m, interval)
		must(t, s.Close())
	}
}

func wantFiles(t *testing.T, mem *vfs.Mem, m *model, interval int) {
	t.Helper()
	offsets, times := m.indexes(interval)
	for extension, want := range map[string][]byte{LogExtension: m.bytes(), IndexExtension: offsets,
		TimeIndexExtension: times} {
		got, err := mem.ReadFile("/" + Name(m.base, extension, ""))
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: got %d bytes that differ from the %d expected ones", extension,
				len(got), len(want))
		}
	}
}

// TestOpenReadsTheEndsOfFilesOnly checks that Open reads only the ends of the files. The cost of
// Open therefore does not depend on their size.
func TestOpenReadsTheEndsOfFilesOnly(t *testing.T) {
	reads := func(batches int) int {
		mem := vfs.NewMem()
		s, err := Create(mem, "/", 0, "", Config{})
		must(t, err)
		for i := range batches {
			must(t, s.Append(batchOf(t, int64(i), 1, int64(i), 500)))
		}
		must(t, s.Close())
		fault := vfs.NewFault(mem)
		s, err = Open(fault, "/", 0, Config{})
		must(t, err)
		operations := fault.Count()
		if s.NextOffset() != int64(batches) {
			t.Fatalf("next offset %d, want %d", s.NextOffset(), batches)
		}
		must(t, s.Close())
		return operations
	}
	// Open also looks up the last entry of the time index by a binary search, which takes a few
	// more reads in a larger index.
	if small, large := reads(200), reads(20_000); large > small+8 {
		t.Errorf("%d operations to open 200 batches, %d for 20000", small, large)
	}
}

// TestScanGrowsToTheBatch checks that a batch that is larger than a scan's buffer is read whole
// (I41).
func TestScanGrowsToTheBatch(t *testing.T) {
	s, err := Create(vfs.NewMem(), "/", 0, "", Config{})
	must(t, err)
	m := &model{batches: []record.Batch{batchOf(t, 0, 1, 1, 10),
		batchOf(t, 1, 1, 2, unverifiedBytesMax), batchOf(t, 2, 2, 3, 10)}}
	for _, b := range m.batches {
		must(t, s.Append(b))
	}
	m.checkScan(t, s, 0)
	m.checkScan(t, s, int64(len(m.batches[0])))
}

// TestLengthIsVerifiedBeforeMemoryIsAllocated damages the length field of a batch, which then
// claims 60 MiB. Neither Scan nor Recover may allocate that much memory: Scan fails, and Recover
// truncates the batch.
func TestLengthIsVerifiedBeforeMemoryIsAllocated(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Create(mem, "/", 0, "", Config{})
	must(t, err)
	good, bad := batchOf(t, 0, 1, 1, 10), batchOf(t, 1, 1, 2, 10)
	must(t, s.Append(good))
	must(t, s.Append(bad))
	must(t, s.Close())
	file, err := mem.OpenReadWrite("/" + Name(0, LogExtension, ""))
	must(t, err)
	must(t, file.Truncate(64<<20))
	binary.BigEndian.PutUint32(bad[8:], 60<<20)
	_, err = file.WriteAt(bad, int64(len(good)))
	must(t, err)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	handle, err := vfs.NewHandles(mem, 0).OpenReadWrite(file.Name())
	must(t, err)
	opened := &Segment{fsys: mem, data: handle}
	scanned := 0
	err = opened.scan(64<<20, 0, func(int64, record.Batch) error { scanned++; return nil })
	if !errors.Is(err, record.ErrCorrupt) || scanned != 1 {
		t.Errorf("%d batches scanned, %v", scanned, err)
	}
	s, found, err := Recover(mem, "/", 0, Config{}, nil)
	must(t, err)
	runtime.ReadMemStats(&after)
	if found.Batches != 1 || s.SizeBytes() != int64(len(good)) ||
		!errors.Is(found.Cause, record.ErrCorrupt) {
		t.Errorf("recovered %+v, %d bytes remain", found, s.SizeBytes())
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

// TestIndexEntryIsWrittenBeyondTheIntervalOnly checks that a batch gets an index entry if more than
// one interval lies between the starts of this batch and of the last indexed batch
// (docs/internals/format/index-files.md).
func TestIndexEntryIsWrittenBeyondTheIntervalOnly(t *testing.T) {
	size := len(batchOf(t, 0, 1, 1, 10))
	for _, c := range []struct{ interval, entries int }{{size - 1, 3}, {size, 1}, {2*size - 1, 1},
		{2 * size, 1}, {3 * size, 0}} {
		v := emptyView(0)
		for i := range int64(4) {
			v.add(batchOf(t, i, 1, 1, 10), size, c.interval)
		}
		if v.offsets.count() != c.entries {
			t.Errorf("batches of %d bytes, interval %d: %d entries, want %d", size, c.interval,
				v.offsets.count(), c.entries)
		}
	}
}

// TestTimestampLookupReadsOneInterval checks that a lookup by timestamp reads at most one index
// interval (docs/internals/format/index-files.md), even if the result is after the last entry of
// the time index, or if timestamps do not ascend.
func TestTimestampLookupReadsOneInterval(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	s, err := Create(fault, "/", 0, "", Config{UnwrittenEntriesMax: 1})
	must(t, err)
	const batches = 5000
	timestamp := func(i int64) int64 {
		if i > 100 && i < 4000 {
			return 50 // below the timestamps of earlier batches
		}
		return 1000 + i
	}
	for i := range int64(batches) {
		must(t, s.Append(batchOf(t, i, 1, timestamp(i), 10)))
	}
	must(t, s.Sync())
	for _, i := range []int64{0, 99, 100, 4001, 4500, batches - 2, batches - 1} {
		before := fault.Count()
		position, ok, err := s.PositionForTimestamp(timestamp(i))
		if want, _ := s.Position(i); err != nil || !ok || position != want {
			t.Errorf("timestamp of batch %d at %d, %v, %v; want %d", i, position, ok, err, want)
		}
		// The limit allows two blocks of an index, the header of the indexed batch, two blocks of
		// headers for the walk, and the reads of Position.
		if reads := fault.Count() - before; reads > 10 {
			t.Errorf("timestamp of batch %d took %d reads", i, reads)
		}
	}
}
