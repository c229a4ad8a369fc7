package logstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// benchBatchBytes is the uncompressed size of a batch in the benchmarks. A busy producer sends
// batches of about this size.
const benchBatchBytes = 64 << 10

// benchBatch returns a batch of equally large records, made of words that compress moderately.
func benchBatch(b *testing.B, recordBytes int) []byte {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	n := benchBatchBytes / recordBytes
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(record.Identity{LastOffsetDelta: int32(n - 1), LeaderEpoch: -1, ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1})
	for i := range n {
		value := fmt.Appendf(nil, `{"id":%d,"text":"`, random.Uint32())
		for len(value) < recordBytes-20 {
			value = fmt.Appendf(value, "word%d ", random.IntN(2000))
		}
		builder.Add(&record.Record{Offset: int64(i), Timestamp: epoch0.UnixMilli(),
			Key: fmt.Appendf(nil, "key-%06d", i), Value: value})
	}
	batch, err := builder.Build(nil)
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// benchLog returns a log on a real disk and its store, which runs no background flushes. The log
// compresses with codec.
func benchLog(b *testing.B, dir string, codec compress.Codec) (*Log, *Store) {
	b.Helper()
	store, err := Open(Options{FS: vfs.OS{}, Dir: dir, Logger: quiet(), FlushInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	config := topicconfig.Default()
	config.KeepCodec, config.Codec, config.RetentionTime = false, codec, topicconfig.Unlimited
	config.SegmentBytes = 256 << 20
	log, err := store.Create(partition, topicOne, config, true)
	if err != nil {
		b.Fatal(err)
	}
	return log, store
}

// unstamped undoes Append's changes to a batch: it resets the offset and the leader epoch to the
// values that the producer sent.
func unstamped(batch []byte) []byte {
	record.Batch(batch).SetBaseOffset(0)
	record.Batch(batch).SetLeaderEpoch(-1)
	return batch
}

// fillMegabytes appends the batch repeatedly until the log has the given size.
func fillMegabytes(b *testing.B, log *Log, batch []byte, megabytes int64) {
	b.Helper()
	for log.Stats().SizeBytes < megabytes<<20 {
		if _, err := log.Append(unstamped(batch), epoch0); err != nil {
			b.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// BenchmarkAppend appends one batch of 64 KiB per iteration: the log checks the batch, compresses
// it if the topic has a codec, and writes it to the page cache.
func BenchmarkAppend(b *testing.B) {
	for _, codec := range []compress.Codec{compress.None, compress.LZ4, compress.Zstd} {
		for _, recordBytes := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%dB", codec, recordBytes), func(b *testing.B) {
				log, store := benchLog(b, b.TempDir(), codec)
				defer store.Close()
				batch := benchBatch(b, recordBytes)
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := log.Append(unstamped(batch), epoch0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(
					float64(
						b.Elapsed().Nanoseconds(),
					)/float64(
						b.N,
					)/float64(
						benchBatchBytes/recordBytes,
					),
					"ns/record",
				)
			})
		}
	}
}

// BenchmarkRead reads a range of 1 MiB at a random offset of a 128 MiB log, as a fetch does. The
// result is a file range for sendfile, so the log reads batch headers but no records.
func BenchmarkRead(b *testing.B) {
	log, store := benchLog(b, b.TempDir(), compress.None)
	defer store.Close()
	fillMegabytes(b, log, benchBatch(b, 1000), 128)
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		slice, err := log.Read(random.Int64N(log.LogEnd()), log.LogEnd(), 1<<20, true)
		if err != nil {
			b.Fatal(err)
		}
		slice.Release()
	}
}

// BenchmarkIndexLookup measures only Segment.Position: a search in the index, and a walk over the
// batch headers of one index interval.
func BenchmarkIndexLookup(b *testing.B) {
	log, store := benchLog(b, b.TempDir(), compress.None)
	defer store.Close()
	fillMegabytes(b, log, keyedBench(b), 64)
	active := log.list.Load().Active()
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := active.Position(random.Int64N(log.LogEnd())); err != nil {
			b.Fatal(err)
		}
	}
}

// keyedBench returns a batch that is small, so an index of such batches has many entries.
func keyedBench(b *testing.B) []byte {
	return storetest.Batch{Keys: []string{"a", "b", "c"}, Value: string(make([]byte, 500))}.Bytes(b)
}

// BenchmarkRecover measures segment.Recover, which runs at a start after an unclean shutdown: it
// reads and checks every batch, and rebuilds the indexes.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	log, store := benchLog(b, dir, compress.None)
	fillMegabytes(b, log, benchBatch(b, 1000), 64)
	size := log.Stats().SizeBytes
	path := log.dir
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		s, found, err := segment.Recover(vfs.OS{}, path, 0, segment.Config{}, nil)
		if err != nil || found.TruncatedBytes != 0 {
			b.Fatal(err, found)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
