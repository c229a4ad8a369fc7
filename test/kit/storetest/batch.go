package storetest

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// Start is the timestamp of a Batch whose field Timestamp is not set.
var Start = time.UnixMilli(1_700_000_000_000)

// Batch is a record batch as a producer sends it. It has one record per key.
type Batch struct {
	Producer      int64 // 0: the batch has no producer id
	Epoch         int16 // producer epoch
	Sequence      int32
	Transactional bool      // for batches with a Producer
	Timestamp     time.Time // default: Start
	Keys          []string
	Value         string // value of every record
}

// Bytes returns the encoded batch.
func (b Batch) Bytes(t testing.TB) []byte {
	t.Helper()
	return b.encode(t, []byte(b.Value))
}

// Tombstones returns the encoded batch with a null value in every record.
func (b Batch) Tombstones(t testing.TB) []byte {
	t.Helper()
	return b.encode(t, nil)
}

func (b Batch) encode(t testing.TB, value []byte) []byte {
	t.Helper()
	id := NoProducer
	if b.Producer != 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence = b.Producer, b.Epoch, b.Sequence
		id.Transactional = b.Transactional
	}
	records := make([]record.Record, len(b.Keys))
	for i, key := range b.Keys {
		records[i] = record.Record{Offset: int64(i), Key: []byte(key), Value: value}
		if !b.Timestamp.IsZero() {
			records[i].Timestamp = b.Timestamp.UnixMilli()
		}
	}
	return Encode(t, id, records...)
}

// NoProducer is the identity of a batch without a producer id.
var NoProducer = record.Identity{LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1,
	BaseSequence: -1}

// Encode returns an uncompressed batch with the given records. It sets the last offset delta of id,
// and sets the timestamp of records without one to Start.
func Encode(t testing.TB, id record.Identity, records ...record.Record) []byte {
	t.Helper()
	id.LastOffsetDelta = int32(len(records) - 1)
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(id)
	for _, r := range records {
		if r.Timestamp == 0 {
			r.Timestamp = Start.UnixMilli()
		}
		b.Add(&r)
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// Keyed returns an encoded batch with one record per key. All records have the same value. With one
// key, the batch has about 100 bytes.
func Keyed(t testing.TB, keys ...string) []byte {
	t.Helper()
	return Batch{Keys: keys, Value: "a value of some thirty bytes"}.Bytes(t)
}
