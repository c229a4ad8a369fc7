package logstore

import (
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// withoutValue is the batch with null values: tombstones.
func (s sent) withoutValue(t testing.TB) []byte {
	t.Helper()
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(record.Identity{LastOffsetDelta: int32(len(s.keys) - 1), LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	for i, key := range s.keys {
		b.Add(&record.Record{Offset: int64(i), Timestamp: s.timestamp.UnixMilli(), Key: []byte(key)})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}
