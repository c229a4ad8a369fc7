package clean

import (
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// TestLargeBatchWithLargeZstdWindowsIsCleaned is a regression test: a pass failed on a batch that
// decompresses to more than 4 MiB and whose second zstd frame declares a window above 8 MiB.
func TestLargeBatchWithLargeZstdWindowsIsCleaned(t *testing.T) {
	const records, valueBytes, windowAt, windowLog = 6, 1 << 20, 5, 24
	builder := record.NewBuilder(compress.Zstd, compress.LevelDefault)
	builder.Reset(record.Identity{LastOffsetDelta: records - 1, ProducerID: -1, BaseSequence: -1})
	for i := range int64(records) {
		builder.Add(&record.Record{Offset: i, Timestamp: start.UnixMilli(),
			Key: []byte{byte(min(i, 2))}, Value: make([]byte, valueBytes)})
	}
	b, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := compress.Decompress(nil, b[record.HeaderBytes:], compress.Zstd, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	var frames []byte
	for i, piece := range [][]byte{payload[:valueBytes], payload[valueBytes:]} {
		frame, err := compress.Compress(nil, piece, compress.Zstd, compress.LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			frame[windowAt] = (windowLog - 10) << 3 // a larger window than necessary is valid
		}
		frames = append(frames, frame...)
	}
	l := newLog(t)
	l.appendRaw(replacePayload(b, frames))
	l.roll()
	l.put("c=1")
	stats := l.pass()
	if stats.OpaqueBatches != 0 || stats.RecordsRemoved != records-3 {
		t.Errorf("got stats %+v, want no opaque batch and %d records removed", stats, records-3)
	}
}
