package keys

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// world is a random segment and its model: the lists of all its batches and records.
type world struct {
	t       testing.TB
	seed    uint64
	random  *rand.Rand
	fsys    vfs.FS
	salt    Salt
	segment *segment.Segment
	batches []Batch
	records []KeyedRecord
}

// shape contains the parameters of a random segment.
type shape struct {
	base        int64
	batches     int
	recordsMax  int // in a batch
	keys        int // number of distinct keys
	valueMax    int
	plain       bool // true for a segment without transactions, null keys and empty batches
	salt        uint64
	opaqueAbove int // decompressed size above which a compressed batch is opaque; 0 for no limit
}

func newWorld(t testing.TB, fsys vfs.FS, seed uint64, s shape) *world {
	t.Helper()
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), fsys: fsys}
	binary.LittleEndian.PutUint64(w.salt[:], s.salt)
	var err error
	w.segment, err = segment.Create(fsys, "/", s.base, "", segment.Config{})
	w.must(err)
	next := s.base + int64(w.random.IntN(2)*w.random.IntN(50))
	for range s.batches {
		next = w.batch(next, s)
	}
	w.must(w.segment.Seal())
	t.Cleanup(func() { _ = w.segment.Close() })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// batch appends a random batch at or above the offset next, and returns the offset after the batch.
func (w *world) batch(next int64, s shape) int64 {
	w.t.Helper()
	n := 1 + w.random.IntN(s.recordsMax)
	id := record.Identity{
		BaseOffset: next, LastOffsetDelta: int32(n - 1), LeaderEpoch: int32(len(w.batches) / 5),
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
	control := false
	if !s.plain {
		control = w.random.IntN(10) == 0
		w.vary(&id, control)
		n = int(id.LastOffsetDelta) + 1
	}
	codec := []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4,
		compress.Zstd}[w.random.IntN(5)]
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(id)
	described := Batch{
		Position: w.segment.SizeBytes(), BaseOffset: id.BaseOffset,
		LastOffset: id.BaseOffset + int64(n) - 1, FirstOrdinal: uint32(len(w.records)),
		ProducerID: id.ProducerID, ProducerEpoch: id.ProducerEpoch, Transactional: id.Transactional,
		TimestampType: id.TimestampType,
		HorizonMs:     id.DeleteHorizonMs, LeaderEpoch: id.LeaderEpoch,
	}
	var records []KeyedRecord
	for i := range n {
		if !s.plain && !control && w.random.IntN(5) == 0 {
			continue // leaves a gap, like a compaction
		}
		r := w.record(id.BaseOffset+int64(i), s)
		k := KeyedRecord{Record: Record{Tombstone: r.Tombstone(), NullKey: r.Key == nil}}
		if control {
			kind := uint16(w.random.IntN(3))
			described.Marker = []Marker{MarkerAbort, MarkerCommit, MarkerOther}[kind]
			r = record.Record{Offset: r.Offset, Timestamp: 5, Key: []byte{0, 0, 0, byte(kind)},
				Value: make([]byte, 6)}
			k.Record = Record{NullKey: true}
		} else if r.Key != nil {
			k.Hash = w.salt.Hasher().Hash(r.Key)
		}
		builder.Add(&r)
		records = append(records, k)
	}
	if control && len(records) == 0 {
		described.Marker = MarkerOther
	}
	content, err := builder.Build(nil)
	w.must(err)
	b := record.Batch(content)
	w.must(w.segment.Append(b))
	described.SizeBytes, described.CRC, described.Codec, described.MaxTimestamp = len(b), b.CRC(),
		b.Codec(), b.MaxTimestamp()
	if len(records) == 0 {
		described.HorizonMs = 0
	}
	payload := w.sizes(b, records)
	if described.Opaque = s.opaqueAbove > 0 && b.Codec() != compress.None &&
		payload > s.opaqueAbove; described.Opaque {
		records = nil
	}
	described.Records = len(records)
	for _, r := range records {
		described.BodyBytes += int64(r.BodyBytes)
	}
	w.batches = append(w.batches, described)
	w.records = append(w.records, records...)
	return described.LastOffset + 1
}

// sizes sets the sizes of the model's records to the sizes in the batch, because the model does not
// encode records. It returns the batch's decompressed size.
func (w *world) sizes(b record.Batch, records []KeyedRecord) (payload int) {
	i := 0
	w.must(b.Records(1<<30, func(r *record.Record) error {
		records[i].BodyBytes = r.BodyBytes()
		payload += r.BodyBytes() + len(binary.AppendVarint(nil, int64(r.BodyBytes())))
		i++
		return nil
	}))
	return payload
}

// vary sets random values in the fields that have fixed values in plain batches.
func (w *world) vary(id *record.Identity, control bool) {
	random := w.random
	if random.IntN(3) == 0 {
		id.BaseOffset += int64(random.IntN(1000))
	}
	if random.IntN(2) == 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence = int64(random.IntN(3)*100_000),
			int16(random.IntN(3)), 0
	}
	id.TimestampType, id.MaxTimestamp = record.TimestampType(random.IntN(2)),
		int64(random.IntN(1<<40))
	id.Transactional = random.IntN(4) == 0
	if random.IntN(5) == 0 {
		id.DeleteHorizonMs = int64(random.IntN(1<<40)) - 1<<20
	}
	if control {
		id.Control, id.Transactional, id.LastOffsetDelta = true, true, 0
	}
}

func (w *world) record(offset int64, s shape) record.Record {
	r := record.Record{Offset: offset, Timestamp: int64(w.random.IntN(1 << 40))}
	r.Key = fmt.Appendf(nil, "key-%d", w.random.IntN(s.keys))
	if w.random.IntN(50) == 0 {
		r.Key = []byte{} // an empty key, unlike a null key
	}
	if w.random.IntN(6) > 0 {
		r.Value = make([]byte, w.random.IntN(s.valueMax+1))
		for i := range r.Value {
			r.Value[i] = byte(w.random.Uint32())
		}
	}
	if !s.plain && w.random.IntN(10) == 0 {
		r.Key = nil
	}
	return r
}

// name returns the path of the sidecar.
func (w *world) name() string {
	return "/" + segment.Name(w.segment.Base(), Extension, "")
}

// identity returns the segment's identity without its digest, which a broker does not know after a
// start.
func (w *world) identity() Identity {
	return Identity{Base: w.segment.Base(), LogBytes: w.segment.SizeBytes()}
}

func (w *world) spool() *Spool {
	return NewSpool(w.fsys, "/"+segment.Name(w.segment.Base(), SpoolExtension, ""),
		w.segment.Base(), w.salt)
}

// scan builds the sidecar by scanning the segment. fit is the number of entries that are sorted in
// memory at once; 0 means the default.
func (w *world) scan(opaqueAbove, fit int) *Reader {
	w.t.Helper()
	spool := w.spool()
	w.must(Scan(w.segment, w.salt.Hasher(), spool, ScanOptions{BatchBytesMax: opaqueAbove}))
	return w.build(spool, fit)
}

// scanHolding is like scan, but with another limit on the decompressed size of the batches whose
// records are all in memory at once.
func (w *world) scanHolding(heldBytesMax, opaqueAbove int) *Reader {
	w.t.Helper()
	spool := w.spool()
	w.must(Scan(w.segment, w.salt.Hasher(), spool,
		ScanOptions{BatchBytesMax: opaqueAbove, heldBytesMax: heldBytesMax}))
	return w.build(spool, 0)
}

// build builds the sidecar from a spool, and opens the sidecar.
func (w *world) build(spool *Spool, fit int) *Reader {
	w.t.Helper()
	if fit == 0 {
		_, err := Build(context.Background(), w.fsys, spool, w.identity(), w.name(), Options{})
		w.must(err)
	} else {
		b := build{fsys: w.fsys, name: w.name(), spool: spool,
			meter: Options{}.meter(context.Background()), fit: fit}
		w.must(b.checkSpool(w.identity()))
		w.must(b.run(b.sorted))
	}
	w.must(spool.Discard())
	return w.open()
}

func (w *world) open() *Reader {
	w.t.Helper()
	r, err := Open(w.fsys, w.name(), Expect{Identity: w.identity(), SaltID: w.salt.ID()})
	w.must(err)
	w.t.Cleanup(func() { _ = r.Close() })
	w.must(r.Verify(w.segment.File()))
	return r
}

// entries returns the model's entries in the order of a sidecar.
func (w *world) entries() (all []Entry) {
	for i, r := range w.records {
		if !r.NullKey {
			all = append(all, Entry{Hash: r.Hash, Ordinal: uint32(i), Tombstone: r.Tombstone})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		switch {
		case a.Hash.Less(b.Hash):
			return -1
		case b.Hash.Less(a.Hash):
			return 1
		}
		return int(a.Ordinal) - int(b.Ordinal)
	})
	return all
}

// check reads the whole sidecar and compares its content with the model.
func (w *world) check(r *Reader) {
	w.t.Helper()
	want := Counts{Batches: len(w.batches), Records: len(w.records)}
	batches := r.Batches()
	for i := 0; batches.Next(); i++ {
		if got := batches.Batch(); i >= len(w.batches) || got != w.batches[i] {
			w.t.Fatalf("seed %d: batch %d is\n%+v, want\n%+v", w.seed, i, got, w.batches[i])
		}
		want.BodyBytes += w.batches[i].BodyBytes
		if w.batches[i].Opaque {
			want.Opaque++
		}
	}
	w.must(batches.Err())
	records, n := r.Records(), 0
	for ; records.Next(); n++ {
		if got := records.Record(); got != w.records[n].Record || records.Ordinal() != uint32(n) {
			w.t.Fatalf("seed %d: record %d is %+v, want %+v", w.seed, n, got, w.records[n].Record)
		}
		if w.records[n].Tombstone {
			want.Tombstones++
		}
		if w.records[n].NullKey {
			want.NullKeys++
		}
	}
	w.must(records.Err())
	if n != len(w.records) || r.Counts() != want {
		w.t.Fatalf("seed %d: %d records, counts %+v; want %+v", w.seed, n, r.Counts(), want)
	}
	w.checkEntries(r)
	w.checkLookups(r)
}

// checkEntries reads all entries, slice by slice, for several widths of slices, and then the
// entries in random ranges.
func (w *world) checkEntries(r *Reader) {
	w.t.Helper()
	all := w.entries()
	reused := new(Entries)
	for _, count := range []uint32{1, 2, 3, 128, 1 + w.random.Uint32N(300)} {
		var got []Entry
		for number := range count {
			for reused.Reset(r, Slice(number, count)); reused.Next(); {
				got = append(got, reused.Entry())
			}
			w.must(reused.Err())
		}
		if !slices.Equal(got, all) {
			w.t.Fatalf("seed %d: %d slices have %d entries, want %d", w.seed, count, len(got),
				len(all))
		}
	}
	for range 20 {
		span := Range{w.random.Uint64(), w.random.Uint64()}
		// Use the hashes of entries as the ends of ranges, because a range includes both ends.
		if len(all) > 0 && w.random.IntN(2) == 0 {
			span.First = all[w.random.IntN(len(all))].Hash.High
			span.Last = max(span.First, all[w.random.IntN(len(all))].Hash.High)
		}
		var got, want []Entry
		for _, e := range all {
			if span.Contains(e.Hash) {
				want = append(want, e)
			}
		}
		entries := r.Entries(span)
		for entries.Next() {
			got = append(got, entries.Entry())
		}
		w.must(entries.Err())
		if !slices.Equal(got, want) {
			w.t.Fatalf("seed %d: range %x has %d entries, want %d", w.seed, span, len(got),
				len(want))
		}
	}
}
