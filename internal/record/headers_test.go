package record

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// headersOf returns n headers; some have an empty key, no value, or an empty value.
func headersOf(n int) (all []Header) {
	for i := range n {
		h := Header{Key: fmt.Append(nil, i%3), Value: fmt.Append(nil, "value ", i)}
		switch i % 5 {
		case 1:
			h.Value = nil
		case 2:
			h.Value = []byte{}
		case 3:
			h.Key = []byte{}
		}
		all = append(all, h)
	}
	return all
}

// batchOf returns a batch of records.
func batchOf(t testing.TB, codec compress.Codec, records ...*Record) Batch {
	t.Helper()
	builder := NewBuilder(codec, compress.LevelDefault)
	builder.Reset(Identity{LastOffsetDelta: int32(len(records) - 1), ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1})
	for _, r := range records {
		builder.Add(r)
	}
	content, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestHeadersOfAnyNumberSurviveARebuild checks that records read back with equal headers, whether
// their number is below or above headersDecodedMax, and even if the next record has another number
// of headers.
func TestHeadersOfAnyNumberSurviveARebuild(t *testing.T) {
	counts := []int{0, 3, headersDecodedMax + 1, 0, headersDecodedMax, 5000, 1}
	var records []*Record
	for i, n := range counts {
		records = append(records, &Record{Offset: int64(i), Key: []byte("k"), Headers: headersOf(n)})
	}
	for _, codec := range []compress.Codec{compress.None, compress.Zstd} {
		b := batchOf(t, codec, records...)
		rebuilt := NewBuilder(codec, compress.LevelDefault)
		rebuilt.Reset(Identity{LastOffsetDelta: int32(len(records) - 1), ProducerID: -1,
			ProducerEpoch: -1, BaseSequence: -1})
		seen := 0
		read := func(r *Record, err error) {
			want := headersOf(counts[r.Offset])
			if err != nil || r.HeaderCount() != len(want) {
				t.Fatalf("%d headers, want %d, error %v", r.HeaderCount(), len(want), err)
			}
			equal := func(a, b Header) bool {
				return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
					(a.Value == nil) == (b.Value == nil)
			}
			if got := slices.Collect(r.AllHeaders()); !slices.EqualFunc(got, want, equal) {
				t.Fatalf("record %d has other headers", r.Offset)
			}
			for range r.AllHeaders() {
				break // checks that an iteration can end early
			}
			seen++
		}
		if err := b.Records(1<<30, func(r *Record) error {
			read(r, nil)
			rebuilt.Add(r)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Stream(bytes.NewReader(b[HeaderBytes:]), 1<<30) {
			read(r, err)
		}
		again, err := rebuilt.Build(nil)
		if err != nil || !bytes.Equal(again, b) || seen != 2*len(counts) {
			t.Errorf("%s: %d records, the rebuilt batch differs, error %v", codec, seen, err)
		}
	}
}

// TestManyHeadersNeedLittleMemory checks that the memory needed to read a record does not depend on
// the number of its headers, and that a damaged header among many is detected.
func TestManyHeadersNeedLittleMemory(t *testing.T) {
	const count = 1 << 20
	// Each header has an empty key and no value, which take two bytes.
	b := batchOf(t, compress.None, &Record{Key: []byte("k"),
		Headers: slices.Repeat([]Header{{Key: []byte{}}}, count)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	err := b.Records(1<<30, func(r *Record) error {
		for range r.AllHeaders() {
			n++
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err != nil || n != count || used > 1<<20 {
		t.Errorf("%d headers, %d bytes were allocated, error %v", n, used, err)
	}
	b[len(b)-2] = 1 // the last header's key gets the length -1, which means null
	if err := b.Records(1<<30, func(*Record) error { return nil }); err == nil {
		t.Error("a null key was accepted")
	}
}

// BenchmarkRecords reads a batch of 64 records with three headers each.
func BenchmarkRecords(b *testing.B) {
	var records []*Record
	for i := range 64 {
		records = append(records, &Record{Offset: int64(i), Key: []byte("ticket-00000001"),
			Value: make([]byte, 180), Headers: headersOf(3)})
	}
	batch := batchOf(b, compress.None, records...)
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Records(1<<20, func(*Record) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
