package keys

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// checkLookups finds the records of keys and the batches of records, with and without the batch
// index.
func (w *world) checkLookups(r *Reader) {
	w.t.Helper()
	w.checkNewest(r)
	w.checkLocator(r)
	if r.header.indexBytes == 0 || w.segment == nil {
		return
	}
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	for name, older := range map[string][]byte{
		"without an index":      withoutIndex(r, content),
		"with an unknown index": withUnknownIndex(content),
	} {
		w.replace(older)
		reader, err := Open(w.fsys, w.name(), w.expect())
		if err != nil || reader.HasIndex() {
			w.t.Fatalf("seed %d: %s: %v", w.seed, name, err)
		}
		w.checkEntries(reader)
		w.checkLocator(reader)
		w.must(errors.Join(readAll(w.fsys, w.name(), w.expect()), reader.Close()))
	}
	w.replace(content)
}

// withoutIndex returns the content of a sidecar that was written before the batch index existed.
func withoutIndex(r *Reader, content []byte) []byte {
	index := r.header.extent(indexSection)
	older := slices.Concat(content[:index.begin], content[index.begin+index.bytes:])
	position := 72 + 8*int(entriesSection-1)
	binary.BigEndian.PutUint64(older[position:], uint64(r.header.entriesEnd()))
	return withUnknownIndex(older)
}

// withUnknownIndex returns the content of a sidecar whose field indexBytes is not read.
func withUnknownIndex(content []byte) []byte {
	older := slices.Clone(content)
	clear(older[indexBytesAt:][:8])
	binary.BigEndian.PutUint32(older[headerCRCAt:], crc32.Checksum(older[:headerCRCAt], castagnoli))
	return older
}

// checkNewest compares the ordinals of each hash with the model.
func (w *world) checkNewest(r *Reader) {
	w.t.Helper()
	want := map[Hash][]uint32{{1, 1}: nil, {^uint64(0), 1}: nil}
	all := w.entries()
	for _, e := range slices.Backward(all) {
		want[e.Hash] = append(want[e.Hash], e.Ordinal)
	}
	for hash, ordinals := range want {
		newest := r.Newest(hash)
		var got []uint32
		for newest.Next() {
			got = append(got, newest.Ordinal())
		}
		if newest.Next() || newest.Err() != nil || !slices.Equal(got, ordinals) {
			w.t.Fatalf("seed %d: hash %x has %d records, error %v; want %d", w.seed, hash, len(got),
				newest.Err(), len(ordinals))
		}
	}
}

// checkLocator compares the batch that a Locator finds for each record with the model, in
// descending and in random order.
func (w *world) checkLocator(r *Reader) {
	w.t.Helper()
	batchOf := make([]int, len(w.records))
	for i, b := range w.batches {
		for n := range b.Records {
			batchOf[int(b.FirstOrdinal)+n] = i
		}
	}
	descending, random := r.Locator(), r.Locator()
	for i := range batchOf {
		for locator, ordinal := range map[*Locator]int{descending: len(batchOf) - 1 - i,
			random: w.random.IntN(len(batchOf))} {
			b, err := locator.Batch(uint32(ordinal))
			if err != nil || b != w.batches[batchOf[ordinal]] {
				w.t.Fatalf("seed %d: record %d of %d is in\n%+v, error %v; want\n%+v", w.seed, ordinal,
					len(batchOf), b, err, w.batches[batchOf[ordinal]])
			}
		}
	}
	if b, err := r.Locator().Batch(uint32(len(batchOf))); !errors.Is(err, ErrCorrupt) {
		w.t.Fatalf("seed %d: a record that is not in the segment is in %+v, error %v", w.seed, b, err)
	}
}

// TestLocatorOfManyBatches uses a segment whose batch index has several pages, and whose spans
// cross pages of batches.
func TestLocatorOfManyBatches(t *testing.T) {
	for s := range seed.Sequence(t, 2) {
		w := newWorld(t, vfs.NewMem(), s, shape{batches: indexPageMax*spanBatches + 300,
			recordsMax: 3, keys: 200, valueMax: 1, plain: s%2 == 0})
		r := w.scan(0, 0)
		if pages := r.header.extent(batchesSection).bytes; pages < streamPageBytes+checksumBytes {
			t.Fatalf("batches of %d bytes are in one page", pages)
		}
		w.checkLookups(r)
	}
}

// TestNewestOfManyRecords uses a key whose records are in many pages, before and after other keys.
func TestNewestOfManyRecords(t *testing.T) {
	for s := range seed.Sequence(t, 4) {
		random := rand.New(rand.NewPCG(s, 3))
		w := newWorld(t, vfs.NewMem(), s, shape{batches: 3, recordsMax: 10_000,
			keys: 1 + random.IntN(3), plain: true})
		w.checkNewest(w.scan(0, 0))
	}
}

// TestLookupReadsLittle checks that a lookup reads only a part of a large sidecar, even if one key
// has most of the records.
func TestLookupReadsLittle(t *testing.T) {
	for _, keys := range []int{1, 2, 100_000} {
		w := newWorld(t, vfs.NewMem(), 1, shape{batches: 9000, recordsMax: 8, keys: keys,
			plain: true})
		r := w.scan(0, 0)
		most, total := 0, 0
		for _, e := range []Entry{w.entries()[0], w.entries()[len(w.entries())-1]} {
			read := 0
			r.OnRead(func(n int) error { read += n; return nil })
			newest := r.Newest(e.Hash)
			if !newest.Next() {
				t.Fatal("an entry was not found")
			}
			if _, err := r.Locator().Batch(newest.Ordinal()); err != nil {
				t.Fatal(err)
			}
			most, total = max(most, read), total+1
		}
		if most > 48<<10 || total != 2 || r.SizeBytes() < 500_000 {
			t.Errorf("%d keys: %d bytes of %d were read", keys, most, r.SizeBytes())
		}
	}
}

// TestLocatorStopsAtTheLimit checks that an error of OnRead ends a search, and that the next search
// begins again.
func TestLocatorStopsAtTheLimit(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), 1, shape{batches: 600, recordsMax: 2, keys: 10, plain: true})
	r := w.scan(0, 0)
	errLimit, left := errors.New("limit"), 0
	r.OnRead(func(n int) error {
		if left -= n; left < 0 {
			return errLimit
		}
		return nil
	})
	locator := r.Locator()
	for _, left = range []int{0, 2000} {
		if _, err := locator.Batch(3); !errors.Is(err, errLimit) {
			t.Errorf("got error %v, want the error of OnRead", err)
		}
	}
	left = 1 << 20
	if b, err := locator.Batch(3); err != nil || b.FirstOrdinal > 3 {
		t.Errorf("after the limit was raised: %+v, %v", b, err)
	}
	if newest := r.Newest(w.entries()[0].Hash); !newest.Next() {
		t.Errorf("got error %v", newest.Err())
	}
}

// FuzzIndex reads random index items and spans with valid checksums.
func FuzzIndex(f *testing.F) {
	w := newWorld(f, vfs.NewMem(), 5, shape{batches: 20, recordsMax: 8, keys: 30, valueMax: 3})
	r := w.scan(0, 0)
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	where := r.header.extent(indexSection)
	f.Add(content[where.begin:where.begin+indexItemBytes], uint32(3))
	f.Fuzz(func(t *testing.T, raw []byte, ordinal uint32) {
		if len(raw) < indexItemBytes {
			return
		}
		item := decodeIndexItem(raw)
		if again := item.append(nil); !slices.Equal(again, raw[:indexItemBytes]) {
			t.Fatalf("%x encodes as %x", raw[:indexItemBytes], again)
		}
		locator := r.Locator()
		if payload, err := locator.items(item); err == nil {
			item.crc = crc32.Update(pageTag(r.header.identity.Digest, spanSection, item.itemsAt),
				castagnoli, payload)
		}
		if err := locator.load(item, 0); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v, want ErrCorrupt", err)
			}
			return
		}
		if b, ok := locator.inSpan(ordinal); ok && (ordinal < b.FirstOrdinal ||
			b.Position+int64(b.SizeBytes) > r.Identity().LogBytes) {
			t.Errorf("record %d is in %+v", ordinal, b)
		}
	})
}
