package keys

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

func TestSidecarEqualsModel(t *testing.T) {
	for seed := range seed.Sequence(t, 30) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := shape{
			base: random.Int64N(1 << 40), batches: random.IntN(120),
			recordsMax: 1 + random.IntN(60), keys: 1 + random.IntN(3000),
			valueMax: random.IntN(200), plain: random.IntN(3) == 0,
		}
		if random.IntN(3) == 0 {
			s.opaqueAbove = 2000
		}
		fit := []int{0, 0, 1, 100, 1000}[random.IntN(5)]
		w := newWorld(t, vfs.NewMem(), seed, s)
		w.check(w.scan(s.opaqueAbove, fit))
		w.check(w.scanHolding(500, s.opaqueAbove))
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// TestSidecarOfExtremeBatches checks that the sidecars of segments with extreme parameters match
// their models.
func TestSidecarOfExtremeBatches(t *testing.T) {
	for name, s := range map[string]shape{
		"empty":         {batches: 0},
		"one record":    {batches: 1, recordsMax: 1, keys: 1, plain: true},
		"one key":       {batches: 60, recordsMax: 100, keys: 1, valueMax: 3, plain: true},
		"single":        {batches: 700, recordsMax: 1, keys: 50, valueMax: 3},
		"large batch":   {batches: 1, recordsMax: 20_000, keys: 20_000, plain: true},
		"top of offset": {base: 1<<62 + 5, batches: 10, recordsMax: 10, keys: 10},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seed.New(t)
			for _, fit := range []int{0, 7} {
				w := newWorld(t, vfs.NewMem(), seed, s)
				w.check(w.scan(0, fit))
			}
		})
	}
}

// TestAppendedSpoolEqualsScan checks that a spool that is filled during appends results in the same
// sidecar as a scan.
func TestAppendedSpoolEqualsScan(t *testing.T) {
	for seed := range seed.Sequence(t, 5) {
		w := newWorld(t, vfs.NewMem(), seed,
			shape{batches: 80, recordsMax: 40, keys: 500, valueMax: 20})
		w.check(w.scan(0, 0))
		scanned, err := w.fsys.ReadFile(w.name())
		w.must(err)
		spool := w.spool()
		for _, b := range w.batches {
			w.must(spool.Append(b, w.records[b.FirstOrdinal:][:b.Records]))
		}
		w.build(spool, 0)
		appended, err := w.fsys.ReadFile(w.name())
		w.must(err)
		if !bytes.Equal(appended, scanned) {
			t.Errorf("seed %d: the sidecars differ", seed)
		}
	}
}

// TestSliceHoldsItsShareOfKeys checks that the share of superseded records in a hash slice is about
// the same as in the whole segment. The cleaner relies on this when it estimates garbage from one
// of 128 slices.
func TestSliceHoldsItsShareOfKeys(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 60, recordsMax: 2000, keys: 20_000, plain: true})
	r := w.scan(0, 0)
	superseded := func(span Range) (entries, dead int) {
		var last Hash
		for e := r.Entries(span); e.Next(); entries++ {
			if entries > 0 && e.Entry().Hash == last {
				dead++
			}
			last = e.Entry().Hash
		}
		return entries, dead
	}
	all, dead := superseded(AllHashes)
	// Use one of 16 slices, because in this small segment one of 128 slices would contain too few
	// entries.
	sample, sampledDead := superseded(Slice(0, 16))
	truth, estimate := float64(dead)/float64(all), float64(sampledDead)/float64(sample)
	if estimate < truth-0.1 || estimate > truth+0.1 {
		t.Errorf("seed %d: %.3f of %d sampled entries are superseded, of all %d: %.3f", w.seed,
			estimate, sample, all, truth)
	}
}

// TestSpoolMemoryIsBounded checks that a spool keeps only a few KiB in memory, regardless of the
// number of records, and returns all records.
func TestSpoolMemoryIsBounded(t *testing.T) {
	w := &world{t: t, fsys: vfs.NewMem()}
	spool := NewSpool(w.fsys, "/spool", 0, w.salt)
	records := make([]KeyedRecord, 100_000)
	for i := range records {
		records[i] = KeyedRecord{Record: Record{BodyBytes: i},
			Hash: w.salt.Hasher().Hash([]byte{byte(i), byte(i >> 8), byte(i >> 16)})}
	}
	w.must(spool.Append(Batch{SizeBytes: 61, LastOffset: int64(len(records) - 1),
		Records: len(records)}, records))
	if held := cap(spool.item) + cap(spool.pages.payload); held > 3*spoolPageBytes {
		t.Errorf("%d bytes are held", held)
	}
	n := 0
	w.must(spool.each(nil, func(Batch) error { return nil },
		func(_ Batch, ordinal uint32, r *KeyedRecord) error {
			if *r != records[ordinal] {
				t.Fatalf("record %d is %+v", ordinal, r)
			}
			n++
			return nil
		}))
	if n != len(records) {
		t.Errorf("%d records are read", n)
	}
	w.must(spool.Discard())
	if _, err := w.fsys.Stat("/spool"); err == nil {
		t.Error("the file of a discarded spool exists")
	}
}

// TestSpoolHold checks that the sidecar is the same whatever number of bytes the spool keeps in
// memory before it creates its file.
func TestSpoolHold(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), 7,
		shape{batches: 200, recordsMax: 50, keys: 3000, valueMax: 20, plain: true})
	var want []byte
	for _, bytesMax := range []int{0, 1, spoolPageBytes + checksumBytes, 3*spoolPageBytes + 100,
		1 << 30} {
		spool := w.spool()
		spool.Hold(bytesMax)
		for _, b := range w.batches {
			w.must(spool.Append(b, w.records[b.FirstOrdinal:][:b.Records]))
		}
		if _, err := w.fsys.Stat(spool.name); (err == nil) != (bytesMax < int(spool.size)) {
			t.Errorf("spool of %d bytes, of which %d may be held: stat of its file: %v",
				spool.size, bytesMax, err)
		}
		_, err := Build(t.Context(), w.fsys, spool, w.identity(), "/held", Options{})
		w.must(err)
		w.must(spool.Discard())
		got, err := w.fsys.ReadFile("/held")
		w.must(err)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("with %d bytes in memory the sidecar differs", bytesMax)
		}
	}
}
