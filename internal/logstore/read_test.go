package logstore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// cleanedBatch returns a batch as the cleaner leaves it: its offset range is [base, last], and only
// the given offsets have a record.
func cleanedBatch(t testing.TB, base, last int64, codec compress.Codec,
	offsets ...int64) record.Batch {
	t.Helper()
	b := record.NewBuilder(codec, compress.LevelDefault)
	b.Reset(record.Identity{
		BaseOffset: base, LastOffsetDelta: int32(last - base), ProducerID: -1, ProducerEpoch: -1,
		BaseSequence: -1,
		MaxTimestamp: epoch0.UnixMilli(),
	})
	for _, offset := range offsets {
		b.Add(&record.Record{Offset: offset, Timestamp: epoch0.UnixMilli() + offset,
			Key: fmt.Appendf(nil, "k%d", offset), Value: []byte("v")})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// cleanedLog returns swapLog's log after the given batches have replaced the offsets [10, 30).
func cleanedLog(t testing.TB, batches ...record.Batch) *Log {
	t.Helper()
	_, log := swapLog(t, vfs.NewMem())
	s, err := segment.Create(log.env.fs, log.dir, 10, swap.CleanedSuffix, segment.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := s.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Seal(),
		replaceNow(log, sourcesOf(log, 1, 3), []*segment.Segment{s})); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestReadSkipsBatchesWithoutRecords(t *testing.T) {
	log := cleanedLog(t,
		cleanedBatch(t, 10, 14, compress.None, 10, 12),
		cleanedBatch(t, 15, 16, compress.None),
		cleanedBatch(t, 17, 19, compress.Zstd, 17),
		cleanedBatch(t, 20, 29, compress.None),
	)
	for _, test := range []struct {
		why    string
		offset int64
		first  int64 // base offset of the first batch
	}{
		{"the batch begins at the offset", 10, 10},
		{"the batch has a record after the offset", 11, 10},
		{"the batch has the record at the offset", 12, 10},
		{"the batch has no record from 13 on, and the next batch is empty", 13, 17},
		{"the batch is empty", 15, 17},
		{"the compressed batch has no record from 18 on, and the segment has no other", 18, 30},
		{"the batch is empty, and the last one of its segment", 25, 30},
	} {
		slice, err := log.Read(test.offset, log.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		if batches := batchesOf(t, slice); batches[0].BaseOffset() != test.first {
			t.Errorf("read at %d begins with the batch at %d, want %d: %s", test.offset,
				batches[0].BaseOffset(), test.first, test.why)
		}
		slice.Release()
	}
}

// TestReadReturnsEmptyBatchIfNothingFollows checks that a read returns a batch without records if
// no other batch follows, because otherwise the reader could not advance past it.
func TestReadReturnsEmptyBatchIfNothingFollows(t *testing.T) {
	log := cleanedLog(t, cleanedBatch(t, 10, 29, compress.None))
	slice, err := log.Read(12, 30, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	batches := batchesOf(t, slice)
	if len(batches) != 1 || batches[0].NextOffset() != 30 {
		t.Errorf("%d batches", len(batches))
	}
}

// TestI44ReadAtEveryOffsetOfACleanedLog checks that a read at any offset of a cleaned log, even at
// an offset without a record, returns the records from this offset on (KAFKA-15388).
func TestI44ReadAtEveryOffsetOfACleanedLog(t *testing.T) {
	log := cleanedLog(t, cleanedBatch(t, 12, 14, compress.LZ4, 13),
		cleanedBatch(t, 18, 22, compress.Gzip, 18, 20))
	want := slices.Concat(expectKeys(0, 10), []string{"13=k13", "18=k18", "20=k20"},
		expectKeys(30, 50))
	offsets := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 18, 20}
	for offset := range int64(50) {
		first, found := slices.BinarySearch(offsets, offset)
		if offset >= 30 {
			first, found = len(offsets)+int(offset-30), true
		}
		if got := readKeys(t, log, offset); !slices.Equal(got, want[first:]) {
			t.Errorf("from %d (has a record: %t): %v", offset, found, got)
		}
	}
}

func TestReadOutsideTheLogIsRejected(t *testing.T) {
	_, log := swapLog(t, vfs.NewMem())
	log.maintain.Lock()
	if err := deleteFront(log, 1); err != nil {
		t.Fatal(err)
	}
	log.maintain.Unlock()
	for _, test := range []struct{ offset, limit int64 }{{9, 50}, {51, 99}, {31, 30}, {-1, 50}} {
		if slice, err := log.Read(test.offset, test.limit, 1000, true); !errors.Is(err,
			ErrOffsetOutOfRange) {
			t.Errorf("at %d, limit %d: %+v, %v", test.offset, test.limit, slice, err)
		}
	}
	for _, test := range []struct{ offset, limit int64 }{{50, 50}, {50, 99}, {30, 30}} {
		slice, err := log.Read(test.offset, test.limit, 1000, true)
		if err != nil || slice.Length != 0 || slice.File != nil {
			t.Errorf("at %d, limit %d: %+v, %v, want no data", test.offset, test.limit, slice, err)
		}
		if slice.LogStart != 10 || slice.HighWatermark != 50 || slice.LastStable != 50 {
			t.Errorf("at %d, limit %d: %+v, want the log start 10 and the ends 50", test.offset,
				test.limit, slice)
		}
	}
}

func TestTimestampLookups(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
	// Both records of batch i have the timestamp 10*i seconds. Batch 15 has smaller timestamps, as
	// from a client whose clock is behind.
	for i := range 30 {
		moment := epoch0.Add(time.Duration(10*i) * time.Second)
		if i == 15 {
			moment = epoch0
		}
		appendBatch(t, log, storetest.Batch{Keys: []string{"a", "b"}, Value: "some value",
			Timestamp: moment}.Bytes(t))
	}
	if len(bases(log)) < 3 {
		t.Fatalf("segments %v, want several", bases(log))
	}
	for _, test := range []struct {
		seconds, limit int64
		offset         int64 // -1 if none is expected
	}{
		{-1, 60, 0}, {0, 60, 0}, {1, 60, 2}, {10, 60, 2}, {140, 60, 28}, {141, 60, 32},
		{150, 60, 32}, {290, 60, 58}, {291, 60, -1},
		{290, 59, 58}, {290, 58, -1}, {10, 2, -1},
	} {
		ms := epoch0.Add(time.Duration(test.seconds) * time.Second).UnixMilli()
		result, ok, err := log.Timestamps().First(ms, test.limit)
		if err != nil {
			t.Fatal(err)
		}
		if ok != (test.offset >= 0) || ok && (result.Offset != test.offset || result.Timestamp < ms) {
			t.Errorf("%d s below %d: %+v, %t; want %d", test.seconds, test.limit, result, ok,
				test.offset)
		}
	}
	result, ok, err := log.Timestamps().Largest()
	if err != nil || !ok || result.Offset != 58 ||
		result.Timestamp != epoch0.Add(290*time.Second).UnixMilli() {
		t.Errorf("max timestamp %+v, %t, %v", result, ok, err)
	}
}

func TestMaxTimestampSkipsEmptyBatchesAndDeletedRecords(t *testing.T) {
	empty := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
	if result, ok, err := empty.Timestamps().Largest(); ok || err != nil {
		t.Errorf("of an empty log: %+v, %t, %v", result, ok, err)
	}
	horizon := cleanedBatch(t, 20, 29, compress.None)
	log := cleanedLog(t, cleanedBatch(t, 10, 14, compress.None, 10, 12), horizon)
	result, ok, err := log.Timestamps().Largest()
	if err != nil || !ok || result.Offset != 12 || result.Timestamp != epoch0.UnixMilli()+12 {
		t.Errorf("%+v, %t, %v", result, ok, err)
	}
	log.offsets.RaiseLogStart(13, &log.mu.producers) // as DeleteRecords does
	if result, ok, err = log.Timestamps().Largest(); err != nil || !ok || result.Offset != 30 {
		t.Errorf("above the log start: %+v, %t, %v", result, ok, err)
	}
	// This record is below the log start, in the batch that contains the log start.
	if result, ok, err = log.Timestamps().First(epoch0.UnixMilli()+12, 50); ok || err != nil {
		t.Errorf("above the log start: %+v, %t, %v", result, ok, err)
	}
}

// hugeBatch returns a batch of three records with the timestamps 10, 11 and 12 after epoch0 and
// with values of the given sizes.
func hugeBatch(t *testing.T, codec compress.Codec, valueBytes ...int) []byte {
	t.Helper()
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(record.Identity{LastOffsetDelta: 2, ProducerID: -1, ProducerEpoch: -1,
		BaseSequence: -1})
	for i, size := range valueBytes {
		builder.Add(&record.Record{Offset: int64(i), Timestamp: epoch0.UnixMilli() + 10 + int64(i),
			Key: []byte("k"), Value: make([]byte, size)})
	}
	huge, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return huge
}

// lookups creates a log of two records, the huge batch and one more record. It looks up timestamps
// in this log and compares the results with the expected ones.
func lookups(t *testing.T, huge []byte, tests []timeLookup) {
	t.Helper()
	log := createLog(t, openStore(t, vfs.NewMem()),
		settings(func(s *topicconfig.Settings) {
			s.MessageBytesMax, s.SegmentBytes = 3*segmentlist.DecompressedBytesMax, 1<<20
		}))
	fill(t, log, 2)
	appendBatch(t, log, huge)
	fill(t, log, 1)
	ms := epoch0.UnixMilli()
	for _, test := range tests {
		log.offsets.RaiseLogStart(test.logStart, &log.mu.producers)
		result, ok, err := log.Timestamps().First(ms+test.ms, test.limit)
		if err != nil || ok != (test.want >= 0) || ok &&
			(result.Offset != test.want || result.Timestamp != ms+test.timestamp) {
			t.Errorf("%+v: %+v, %t, %v", test, result, ok, err)
		}
		if result, ok, err = log.Timestamps().Largest(); err != nil || !ok ||
			result.Offset != test.latest ||
			result.Timestamp != ms+12 {
			t.Errorf("largest timestamp from %d on: %+v, %t, %v", test.logStart, result, ok, err)
		}
	}
}

type timeLookup struct {
	ms, logStart, limit int64
	want, timestamp     int64 // first record with a timestamp >= ms; want is -1 if there is none
	latest              int64 // offset of the record with the largest timestamp
}

// TestTimestampLookupsInHugeBatch checks that a lookup finds the records of a batch regardless of
// the batch's decompressed size, because it keeps one record in memory at a time.
func TestTimestampLookupsInHugeBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("decompresses 1.5 times the limit of a lookup, six times")
	}
	const half = segmentlist.DecompressedBytesMax / 2
	lookups(t, hugeBatch(t, compress.Zstd, half, half, half), []timeLookup{
		{11, 0, 6, 3, 11, 4}, {12, 0, 6, 4, 12, 4}, {12, 3, 6, 4, 12, 4}, {10, 3, 6, 3, 11, 4},
		{12, 0, 4, -1, 0, 4}, {13, 0, 6, -1, 0, 4},
	})
}

// TestTimestampLookupsUseHeaderOfHugeRecords checks that if a record of a batch is too large for a
// lookup, the lookup uses the batch's header. It returns no error, and never an offset after the
// first matching record.
func TestTimestampLookupsUseHeaderOfHugeRecords(t *testing.T) {
	lookups(t, hugeBatch(t, compress.Zstd, 10, segmentlist.DecompressedBytesMax+1, 10), []timeLookup{
		{10, 0, 6, 2, 10, 2}, {11, 0, 6, 2, 12, 2}, {12, 3, 6, 3, 12, 3}, {12, 0, 2, -1, 0, 2},
		{13, 0, 6, -1, 0, 2},
	})
}

// TestReadsAtTheEndDuringRolls checks that a read at any offset below the log end returns the
// record at this offset, even while the log rolls.
func TestReadsAtTheEndDuringRolls(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()),
		settings(func(s *topicconfig.Settings) { s.SegmentBytes = 100 }))
	batch := keyed(t, "k")
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for offset := int64(0); offset < 2000; {
				end := log.LogEnd()
				if end == offset {
					continue
				}
				slice, err := log.Read(offset, math.MaxInt64, 100, true)
				if err != nil || slice.Length == 0 {
					t.Errorf("at %d of %d: %v, %v", offset, end, slice, err)
					return
				}
				slice.Release()
				offset++
			}
		})
	}
	for range 2000 {
		if _, err := log.Append(slices.Clone(batch), epoch0); err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
}
