package logstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// BenchmarkAppendKeys measures the CPU time that the spooling of keys adds to an append, on a real
// disk. The batches have 100 records with keys of 36 bytes. cpu-ns/record is the process's user and
// system time per record. with=made includes the time to build the sidecars.
func BenchmarkAppendKeys(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, codec := range []compress.Codec{compress.None, compress.LZ4} {
			for _, with := range []string{"nothing", "spool", "made"} {
				b.Run(fmt.Sprintf("size=%d/codec=%s/with=%s", size, codec, with),
					func(b *testing.B) {
						benchmarkAppendKeys(b, size, codec, with)
					})
			}
		}
	}
}

func benchmarkAppendKeys(b *testing.B, size int, codec compress.Codec, with string) {
	store, err := Open(Options{FS: vfs.OS{}, Dir: b.TempDir(), Logger: quiet(),
		FlushInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	log := createLog(b, store, keyedSettings(func(s *topicconfig.Settings) {
		s.KeepCodec, s.SegmentBytes, s.MessageBytesMax = true, 64<<20, 1<<20
		s.Delete, s.RetentionBytes = true, 256<<20
	}))
	if with == "nothing" {
		log.compaction.Sidecars.Salt.Store(nil)
	}
	batches := benchmarkBatches(b, size, codec)
	scratch := make([]byte, 0, 1<<20)
	began, done := cpuTime(b), 0
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		scratch = append(scratch[:0], batches[i%len(batches)]...)
		if _, err := log.Append(scratch, epoch0); err != nil {
			b.Fatal(err)
		}
		done++
		if i%4096 == 4095 {
			benchmarkTend(b, store, log, with)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-began)/float64(100*done), "cpu-ns/record")
}

// benchmarkTend does the work of the store's and the cleaner's background goroutines. Otherwise the
// disk would fill up.
func benchmarkTend(b *testing.B, store *Store, log *Log, with string) {
	log.AdvanceHighWatermark(log.LogEnd())
	store.tick(epoch0, false)
	if with == "made" {
		for log.compaction.Sidecars.BuildNext(context.Background(), epoch0,
			sidecars.Options{Options: keys.Options{MemoryBytes: sidecars.MemoryBytes}}) {
		}
	}
	if err := log.applyRetention(epoch0); err != nil {
		b.Fatal(err)
	}
}

// benchmarkBatches returns batches with unique keys, and values that compress by half.
func benchmarkBatches(b *testing.B, size int, codec compress.Codec) (all [][]byte) {
	random := rand.New(rand.NewPCG(1, 1))
	builder := record.NewBuilder(codec, compress.LevelDefault)
	for range 64 {
		builder.Reset(record.Identity{LastOffsetDelta: 99, LeaderEpoch: -1, ProducerID: -1,
			ProducerEpoch: -1, BaseSequence: -1})
		for i := range 100 {
			value := make([]byte, size-36)
			for index := 0; index+16 <= len(value); index += 16 {
				binary.LittleEndian.PutUint64(value[index:], random.Uint64())
			}
			key := fmt.Appendf(nil, "%036d", random.Uint64())
			builder.Add(&record.Record{Offset: int64(i), Timestamp: epoch0.UnixMilli(), Key: key,
				Value: value})
		}
		batch, err := builder.Build(nil)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, batch)
	}
	return all
}
