package record

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/test/kit/seed"
)

func TestRandomBatchesRoundTripInEveryCodec(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		builder := NewBuilder(codec, compress.LevelDefault)
		for range 50 {
			id := Identity{BaseOffset: random.Int64N(1 << 40), LastOffsetDelta: 300,
				ProducerID: random.Int64N(5) - 1}
			if random.IntN(2) == 0 {
				id.DeleteHorizonMs = 1 + random.Int64N(1<<41)
			}
			builder.Reset(id)
			var added []Record
			for offset := id.BaseOffset; offset <= id.BaseOffset+300; offset += 1 +
				random.Int64N(40) {
				added = append(added, randomRecord(random, offset))
				builder.Add(&added[len(added)-1])
			}
			built, err := builder.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			b, rest, err := Next(built)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%s: %v, %d bytes left", codec, err, len(rest))
			}
			if err := b.CheckCRC(); err != nil {
				t.Fatalf("%s: %v", codec, err)
			}
			if b.Codec() != codec || int(b.Count()) != len(added) {
				t.Fatalf("%s: codec %s, %d records, want %d", codec, b.Codec(), b.Count(),
					len(added))
			}
			if read := collect(t, b); !slices.Equal(texts(read), texts(added)) {
				t.Fatalf("%s: added %v, read %v", codec, texts(added), texts(read))
			}
		}
	}
}

// survivors returns records with gaps between their offsets, like the records of a cleaned batch.
func survivors() []Record {
	return []Record{
		{Offset: 103, Timestamp: 5000, Key: []byte("a"), Value: []byte("1"),
			Headers: []Header{{Key: []byte("h")}, {Key: []byte("h")}}},
		{Offset: 107, Timestamp: 4000, Key: []byte("b")},
	}
}

func identity() Identity {
	return Identity{
		BaseOffset: 100, LastOffsetDelta: 9, LeaderEpoch: 3, MaxTimestamp: 9000,
		ProducerID: 42, ProducerEpoch: 2, BaseSequence: 17,
	}
}

func build(t *testing.T, id Identity, records ...Record) Batch {
	t.Helper()
	builder := NewBuilder(compress.Zstd, 7)
	builder.Reset(id)
	for i := range records {
		builder.Add(&records[i])
	}
	if builder.Count() != len(records) {
		t.Errorf("Count() = %d, want %d", builder.Count(), len(records))
	}
	built, err := builder.Build([]byte("before"))
	if err != nil || string(built[:6]) != "before" {
		t.Fatal(err)
	}
	b := Batch(built[6:])
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRebuiltBatchKeepsIdentityAndRecords(t *testing.T) {
	b := build(t, identity(), survivors()...)
	want := identity()
	want.MaxTimestamp = 5000
	if got := IdentityOf(b); got != want {
		t.Errorf("identity %+v, want %+v: maximum timestamp of the survivors, everything else unchanged", got, want)
	}
	if b.BaseTimestamp() != 5000 || b.LastOffset() != 109 || b.Count() != 2 {
		t.Errorf("base timestamp %d (first survivor's: 5000), last offset %d, count %d",
			b.BaseTimestamp(), b.LastOffset(), b.Count())
	}
	if got := texts(collect(t, b)); !slices.Equal(got, texts(survivors())) {
		t.Errorf("records %v", got)
	}
}

// TestDeleteHorizonReplacesBaseTimestampAndKeepsTimestamps builds a batch whose delete horizon
// (attribute bit 6) is later than its records' timestamps. The timestamp deltas are then negative,
// and the records must read back with the same timestamps.
func TestDeleteHorizonReplacesBaseTimestampAndKeepsTimestamps(t *testing.T) {
	id := identity()
	id.DeleteHorizonMs = 99_000
	b := build(t, id, survivors()...)
	if ms, ok := b.DeleteHorizon(); !ok || ms != 99_000 || b.BaseTimestamp() != 99_000 ||
		b.MaxTimestamp() != 5000 {
		t.Errorf("horizon %d %v, base timestamp %d, max %d", ms, ok, b.BaseTimestamp(),
			b.MaxTimestamp())
	}
	if got := texts(collect(t, b)); !slices.Equal(got, texts(survivors())) {
		t.Errorf("records %v", got)
	}
}

func TestLogAppendTimeKeepsMaxTimestamp(t *testing.T) {
	id := identity()
	id.TimestampType = LogAppendTime
	if b := build(t, id, survivors()...); b.MaxTimestamp() != 9000 ||
		b.TimestampType() != LogAppendTime {
		t.Errorf("max timestamp %d, type %d", b.MaxTimestamp(), b.TimestampType())
	}
}

func TestEmptyBatchHas61BytesAndKeepsItsOffsets(t *testing.T) {
	id := identity()
	id.DeleteHorizonMs, id.Transactional = 77, true
	b := build(t, id)
	want := identity()
	want.Transactional = true
	if len(b) != HeaderBytes || b.Count() != 0 || b.Codec() != compress.None ||
		b.BaseTimestamp() != -1 {
		t.Errorf("%d bytes, count %d, codec %s, base timestamp %d", len(b), b.Count(), b.Codec(),
			b.BaseTimestamp())
	}
	if got := IdentityOf(b); got != want {
		t.Errorf("identity %+v, want %+v: no delete horizon, everything else unchanged", got, want)
	}
	if got := collect(t, b); len(got) != 0 {
		t.Errorf("the empty batch has records %v", texts(got))
	}
}

func TestControlBatchIsNeverCompressed(t *testing.T) {
	id := identity()
	id.Control, id.Transactional = true, true
	if b := build(t, id, Record{Offset: 100, Key: []byte{0, 0, 0, 1},
		Value: make([]byte, 6)}); b.Codec() != compress.None || !b.Control() {
		t.Errorf("codec %s, control %v", b.Codec(), b.Control())
	}
}

func TestBuilderRejectsOffsetsOutOfOrder(t *testing.T) {
	for name, offsets := range map[string][]int64{
		"before the base": {99}, "after the last": {110}, "duplicate": {101, 101},
		"descending": {105, 104},
	} {
		builder := NewBuilder(compress.None, compress.LevelDefault)
		builder.Reset(identity())
		for _, offset := range offsets {
			builder.Add(&Record{Offset: offset})
		}
		if _, err := builder.Build(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		builder.Reset(identity())
		if _, err := builder.Build(nil); err != nil {
			t.Errorf("Reset does not clear the error: %v", err)
		}
	}
}
