package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// clientBatch builds a batch as a client sends it: base offset 0, leader epoch -1, no producer id.
// It sets the records' offsets to 0, 1, 2...
func clientBatch(t testing.TB, codec compress.Codec, records ...Record) Batch {
	t.Helper()
	return buildBatch(t, codec, Identity{
		LastOffsetDelta: int32(len(records) - 1), LeaderEpoch: -1, ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1,
	}, records...)
}

func buildBatch(t testing.TB, codec compress.Codec, id Identity, records ...Record) Batch {
	t.Helper()
	b := NewBuilder(codec, compress.LevelDefault)
	b.Reset(id)
	for i := range records {
		records[i].Offset = id.BaseOffset + int64(i)
		b.Add(&records[i])
	}
	built, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Batch(built)
}

func keyed(key, value string, timestamp int64) Record {
	return Record{Key: []byte(key), Value: []byte(value), Timestamp: timestamp}
}

// collect returns copies of a batch's records.
func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	var all []Record
	if err := b.Records(64<<20, func(r *Record) error {
		all = append(all, clone(*r))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func clone(r Record) Record {
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i] = Header{Key: bytes.Clone(r.Headers[i].Key),
			Value: bytes.Clone(r.Headers[i].Value)}
	}
	return r
}

// text formats a record. It distinguishes null values from empty values.
func text(r Record) string {
	out := fmt.Sprintf("%d@%d %s=%s", r.Offset, r.Timestamp, nullable(r.Key), nullable(r.Value))
	for _, h := range r.Headers {
		out += fmt.Sprintf(" %s:%s", nullable(h.Key), nullable(h.Value))
	}
	return out
}

func nullable(value []byte) string {
	if value == nil {
		return "null"
	}
	return fmt.Sprintf("%q", value)
}

func texts(records []Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, text(r))
	}
	return all
}

// randomRecord returns a random record, including null and empty keys and values, duplicate and
// null headers, and negative timestamps.
func randomRecord(random *rand.Rand, offset int64) Record {
	r := Record{Offset: offset, Timestamp: random.Int64N(1<<41) - 5, Key: randomBytes(random),
		Value: randomBytes(random)}
	for range random.IntN(3) {
		key := randomBytes(random)
		if key == nil {
			key = []byte{}
		}
		r.Headers = append(r.Headers, Header{Key: key, Value: randomBytes(random)})
	}
	return r
}

func randomBytes(random *rand.Rand) []byte {
	if random.IntN(4) == 0 {
		return nil
	}
	return bytes.Repeat([]byte{byte('a' + random.IntN(26))}, random.IntN(100))
}
