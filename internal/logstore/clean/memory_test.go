package clean

import (
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// zstdZeros returns a zstd frame that decompresses to the given number of blocks of 128 KiB zeros
// (RFC 8878, block type RLE), with a window of 2 MiB.
func zstdZeros(blocks int) []byte {
	const blockBytes, windowLog, typeRLE, lastBlock = 128 << 10, 21, 1 << 1, 1
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3}
	for i := range blocks {
		header := uint32(blockBytes<<3 | typeRLE)
		if i == blocks-1 {
			header |= lastBlock
		}
		frame = append(frame, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return frame
}

// withPayload returns a batch whose header describes one record, with the given bytes as compressed
// payload.
func withPayload(t *testing.T, offset int64, codec compress.Codec, payload []byte) record.Batch {
	t.Helper()
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(record.Identity{BaseOffset: offset, ProducerID: -1, BaseSequence: -1})
	builder.Add(&record.Record{Offset: offset, Timestamp: start.UnixMilli(), Key: []byte("k")})
	b, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return replacePayload(b, payload)
}

// replacePayload returns a batch with b's header and another payload. It sets the length and the
// checksum in the header.
func replacePayload(b record.Batch, payload []byte) record.Batch {
	b = append(b[:record.HeaderBytes:record.HeaderBytes], payload...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// allocatedBy returns the total number of bytes that f allocates. This is an upper bound of the
// memory that f uses at any time.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBatchOfFourGibibytesIsKeptInBoundedMemory(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1")
	l.appendRaw(withPayload(t, l.next, compress.Zstd, zstdZeros(4<<30/(128<<10))))
	l.put("a=2")
	l.roll()
	l.put("c=1")
	l.job.Limits.MemoryBytes = 64 << 20
	var stats Stats
	allocated := allocatedBy(func() { stats = l.pass() })
	if allocated > 32<<20 {
		t.Errorf("the pass allocated %d MiB", allocated>>20)
	}
	if stats.OpaqueBatches != 1 || stats.RecordsRemoved != 1 {
		t.Errorf("stats %+v, want an opaque batch and one record removed", stats)
	}
	if all := l.batches(); len(all) != 4 || len(all[1]) < 100<<10 {
		t.Errorf("log contains %d batches, want 4 with the large one unchanged", len(all))
	}
}

// TestLargeBatchIsRebuiltWithoutHoldingAllItsRecords checks that a rewrite of a batch of 64 MiB
// keeps only the remaining records in memory, uncompressed and compressed, because a batch is
// compressed as a whole. It does not keep the removed records in memory.
func TestLargeBatchIsRebuiltWithoutHoldingAllItsRecords(t *testing.T) {
	const records, valueBytes = 64, 1 << 20
	l := newLog(t)
	builder := record.NewBuilder(compress.Zstd, compress.LevelDefault)
	builder.Reset(record.Identity{BaseOffset: 0, LastOffsetDelta: records - 1, ProducerID: -1,
		BaseSequence: -1})
	for i := range int64(records) {
		builder.Add(&record.Record{Offset: i, Timestamp: start.UnixMilli(),
			Key: []byte{byte(min(i, 3))}, Value: make([]byte, valueBytes)})
	}
	b, err := builder.Build(nil)
	l.must(err)
	l.appendRaw(b)
	l.roll()
	l.put("c=1")
	var stats Stats
	allocated := allocatedBy(func() { stats = l.pass() })
	// The limit includes the builder and three decoders. The decoders are allocated again if the
	// garbage collector has emptied their pool.
	if allocated > 96<<20 {
		t.Errorf("the pass allocated %d MiB", allocated>>20)
	}
	if stats.OpaqueBatches != 0 || stats.RecordsRemoved != records-4 {
		t.Errorf("stats %+v, want %d records removed", stats, records-4)
	}
	if all := l.records(); len(all) != 5 {
		t.Errorf("log contains %d records, want 5", len(all))
	}
}
