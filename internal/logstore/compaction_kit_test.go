package logstore

import (
	"context"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// compacted returns the settings of a compacted topic whose segments hold about nine small batches.
func compacted(change func(*topicconfig.Settings)) topicconfig.Settings {
	return settings(func(s *topicconfig.Settings) {
		s.Compact, s.Delete, s.KeepCodec = true, false, true
		s.MinDirtyPercent, s.MaxGarbagePercent = 50, 0
		if change != nil {
			change(s)
		}
	})
}

// compact runs one pass over a log.
func compact(ctx context.Context, log *Log) (clean.Stats, error) {
	c := log.Compaction()
	return c.Pass(ctx, PassOptions{Settings: c.Settings(), MemoryBytes: 1 << 20})
}

// withoutValue returns the batch with null values: tombstones.
func (s sent) withoutValue(t testing.TB) []byte {
	t.Helper()
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(record.Identity{LastOffsetDelta: int32(len(s.keys) - 1), LeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	for i, key := range s.keys {
		b.Add(&record.Record{Offset: int64(i), Timestamp: s.timestamp.UnixMilli(),
			Key: []byte(key)})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}
