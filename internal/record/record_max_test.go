package record

import (
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// TestRecordsAreLimitedAfterDecompression checks that a compressed batch with a record above
// RecordMax is rejected, and that a batch that expands far beyond RecordMax is not decompressed to
// its end. As in Kafka, RecordMax does not apply to uncompressed batches.
func TestRecordsAreLimitedAfterDecompression(t *testing.T) {
	value := make([]byte, 1000)
	// The body contains attributes, two deltas, a null key, the value's length in two bytes, the
	// value, and the number of headers.
	const body = 1 + 1 + 1 + 1 + 2 + 1000 + 1
	for _, codec := range []compress.Codec{compress.Gzip, compress.Snappy, compress.LZ4,
		compress.Zstd} {
		for limit, ok := range map[int]bool{0: true, body: true, body - 1: false, 1: false} {
			batch := recordMaxBatch(t, codec, value)
			valid, err := Validate(batch, Rules{KeepCodec: true, RecordMax: limit},
				time.UnixMilli(0))
			if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalidRecord) {
				t.Errorf("%s, limit %d: got error %v, want success %v", codec, limit, err, ok)
			}
			if err == nil {
				valid.Release()
			}
		}
	}
	if valid, err := Validate(recordMaxBatch(t, compress.None, value),
		Rules{KeepCodec: true, RecordMax: 1}, time.UnixMilli(0)); err != nil {
		t.Errorf("batch without compression: %v", err)
	} else {
		valid.Release()
	}
	if got := (Rules{RecordMax: 100}).decompressedMax(3); got != 315 {
		t.Errorf("limit of 3 records: got %d bytes, want 315", got)
	}
}

func recordMaxBatch(t *testing.T, codec compress.Codec, value []byte) Batch {
	t.Helper()
	return buildBatch(t, codec, Identity{LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1,
		BaseSequence: -1}, Record{Value: value})
}
