package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batchOf returns a batch of n records, starting at offset base. The last record has the given
// timestamp. With n = 0 the batch has no records.
func batchOf(t testing.TB, base int64, n int, timestamp int64, valueBytes int) record.Batch {
	t.Helper()
	builder := record.NewBuilder(0, 0) // uncompressed
	builder.Reset(record.Identity{
		BaseOffset: base, LastOffsetDelta: int32(max(n-1, 0)), MaxTimestamp: timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	})
	for i := range n {
		builder.Add(&record.Record{
			Offset: base + int64(i), Timestamp: timestamp - int64(n-1-i), Key: []byte("key"),
			Value: bytes.Repeat([]byte("v"), valueBytes),
		})
	}
	built, err := builder.Build(nil)
	must(t, err)
	return built
}

// model represents a segment as a list of batches. Its lookups are simple loops. The tests compare
// a Segment's results with the model's results.
type model struct {
	base    int64
	batches []record.Batch
}

func (m *model) next() int64 {
	if len(m.batches) == 0 {
		return m.base
	}
	return m.batches[len(m.batches)-1].NextOffset()
}

func (m *model) bytes() []byte {
	var all []byte
	for _, b := range m.batches {
		all = append(all, b...)
	}
	return all
}

// first returns the position of the first batch that matches. If no batch matches, it returns the
// end position of the data and false.
func (m *model) first(match func(record.Batch) bool) (position int64, ok bool) {
	for _, b := range m.batches {
		if match(b) {
			return position, true
		}
		position += int64(len(b))
	}
	return position, false
}

func (m *model) position(offset int64) int64 {
	position, _ := m.first(func(b record.Batch) bool { return b.LastOffset() >= offset })
	return position
}

func (m *model) truncate(offset int64) {
	for i, b := range m.batches {
		if b.LastOffset() >= offset {
			m.batches = m.batches[:i:i]
			return
		}
	}
}

func (m *model) maxTimestamp() (ms, offset int64) {
	ms, offset = -1, m.base
	for _, b := range m.batches {
		if b.MaxTimestamp() > ms {
			ms, offset = b.MaxTimestamp(), b.LastOffset()
		}
	}
	return ms, offset
}

// indexes returns the content of the index files that Kafka writes for these batches. It
// reimplements Kafka's LogSegment.append and onBecomeInactiveSegment.
func (m *model) indexes(interval int) (offsets, times []byte) {
	since, position, lastTime := 0, 0, int64(-1)
	for i, b := range m.batches {
		soFar := model{base: m.base, batches: m.batches[:i+1]}
		ms, offset := soFar.maxTimestamp()
		if since > interval {
			offsets = appendOffsetEntry(offsets,
				OffsetEntry{int32(b.LastOffset() - m.base), int32(position)})
			if ms > lastTime {
				times = appendTimeEntry(times, TimeEntry{ms, int32(offset - m.base)})
				lastTime = ms
			}
			since = 0
		}
		position += len(b)
		since += len(b)
	}
	if ms, offset := m.maxTimestamp(); ms > lastTime {
		times = appendTimeEntry(times, TimeEntry{ms, int32(offset - m.base)})
	}
	return offsets, times
}

// randomBatch returns a batch that can follow the model's batches. Usually it leaves no offset gap
// and has a larger timestamp; sometimes it is empty, large or without a timestamp.
func (m *model) randomBatch(t testing.TB, random *rand.Rand) record.Batch {
	base := m.next()
	if random.IntN(8) == 0 {
		base += int64(random.IntN(50))
	}
	timestamp := 1_000_000 + base*10 - int64(random.IntN(300))
	n, valueBytes := 1+random.IntN(4), random.IntN(200)
	switch random.IntN(20) {
	case 0:
		n = 0
	case 1:
		valueBytes = 5000
	case 2:
		n, timestamp = 1, -1
	}
	return batchOf(t, base, n, timestamp, valueBytes)
}

// check compares the results of all read methods of a segment with the model.
func (m *model) check(t testing.TB, s *Segment, random *rand.Rand) {
	t.Helper()
	all := m.bytes()
	if s.NextOffset() != m.next() || s.SizeBytes() != int64(len(all)) || s.Base() != m.base {
		t.Fatalf("next %d, size %d; want %d, %d", s.NextOffset(), s.SizeBytes(), m.next(), len(all))
	}
	ms, place := s.MaxTimestamp()
	if wantMs, wantAt := m.maxTimestamp(); ms != wantMs || place != wantAt {
		t.Fatalf("max timestamp %d at %d, want %d at %d", ms, place, wantMs, wantAt)
	}
	if first, ok := s.FirstTimestamp(); ok != (len(m.batches) > 0) || ok &&
		first != m.batches[0].MaxTimestamp() {
		t.Fatalf("first timestamp %d, %v", first, ok)
	}
	for range 20 {
		offset := m.base - 1 + random.Int64N(m.next()-m.base+3)
		if got, err := s.Position(offset); err != nil || got != m.position(offset) {
			t.Fatalf("position of %d: %d, %v; want %d", offset, got, err, m.position(offset))
		}
		m.checkBoundary(t, s, random.Int64N(int64(len(all))+10))
		timestamp := 1_000_000 + m.base*10 - 400 + random.Int64N((m.next()-m.base)*10+800)
		m.checkTimestamp(t, s, timestamp)
	}
	m.checkTimestamp(t, s, ms)
	m.checkTimestamp(t, s, ms+1)
	m.checkTimestamp(t, s, -1)
	m.checkScan(t, s, m.position(m.base+random.Int64N(m.next()-m.base+1)))
}

// checkBoundary compares Boundary's result with the model.
func (m *model) checkBoundary(t testing.TB, s *Segment, limit int64) {
	t.Helper()
	want := int64(0)
	for _, b := range m.batches {
		if want+int64(len(b)) > limit {
			break
		}
		want += int64(len(b))
	}
	if got, err := s.Boundary(limit); err != nil || got != want {
		t.Fatalf("boundary at or below %d: %d, %v; want %d", limit, got, err, want)
	}
}

// checkTimestamp compares PositionForTimestamp's result with the model.
func (m *model) checkTimestamp(t testing.TB, s *Segment, ms int64) {
	t.Helper()
	want, wantOK := m.first(func(b record.Batch) bool { return b.MaxTimestamp() >= ms })
	if got, ok, err := s.PositionForTimestamp(ms); err != nil || ok != wantOK || ok && got != want {
		t.Fatalf("position for timestamp %d: %d, %v, %v; want %d, %v", ms, got, ok, err, want,
			wantOK)
	}
}

// checkScan reads the batches and headers from a position to the end, and compares them with the
// model.
func (m *model) checkScan(t testing.TB, s *Segment, position int64) {
	t.Helper()
	offset, got := position, []byte{}
	must(t, s.Scan(position, func(p int64, b record.Batch) error {
		header, err := s.HeaderAt(p)
		if err != nil || p != offset {
			t.Fatalf("header at %d: error %v, want position %d", p, err, offset)
		}
		if header.Position != p || header.SizeBytes != len(b) {
			t.Fatalf("header at %d: %+v, want its position and %d bytes", p, header, len(b))
		}
		if header.LastOffset() != b.LastOffset() {
			t.Fatalf("header at %d: last offset %d, want %d", p, header.LastOffset(), b.LastOffset())
		}
		offset += int64(len(b))
		got = append(got, b...)
		return nil
	}))
	if !bytes.Equal(got, m.bytes()[position:]) {
		t.Fatalf("scan from %d returned %d bytes that differ from the appended batches",
			position, len(got))
	}
	if _, err := s.HeaderAt(offset); !errors.Is(err, io.EOF) {
		t.Fatalf("header at the end: %v", err)
	}
}

// checkIndexes compares each entry in the index files of a sealed or closed segment with the model.
func (m *model) checkIndexes(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	offsets, err := fsys.ReadFile(dir + "/" + Name(m.base, IndexExtension, ""))
	must(t, err)
	last := OffsetEntry{-1, 0}
	for ; len(offsets) > 0; offsets = offsets[OffsetEntryBytes:] {
		entry := ParseOffsetEntry(offsets)
		if entry.Relative <= last.Relative || entry.Position <= last.Position {
			t.Fatalf("offset entry %+v after %+v", entry, last)
		}
		if want := m.position(m.base + int64(entry.Relative)); int64(entry.Position) != want {
			t.Fatalf("offset entry %+v, want position %d", entry, want)
		}
		last = entry
	}
	times, err := fsys.ReadFile(dir + "/" + Name(m.base, TimeIndexExtension, ""))
	must(t, err)
	before := TimeEntry{-1, -1}
	for ; len(times) > 0; times = times[TimeEntryBytes:] {
		entry := ParseTimeEntry(times)
		if entry.Relative <= before.Relative || entry.Timestamp <= before.Timestamp {
			t.Fatalf("time entry %+v after %+v", entry, before)
		}
		before = entry
	}
	if ms, place := m.maxTimestamp(); ms != before.Timestamp || ms >= 0 && place != m.base+
		int64(before.Relative) {
		t.Fatalf("last time entry is %+v, want the largest timestamp %d at %d", before, ms, place)
	}
}

func newRandom(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(seed.New(t), 0))
}
