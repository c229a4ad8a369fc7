package record

import (
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// What Validate finds wrong; each maps to one Kafka error code (reference 1.4). ErrCorrupt is another.
var (
	ErrInvalidRecord    = errors.New("invalid record")
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	ErrMessageTooLarge  = errors.New("message too large")
	ErrUnsupportedCodec = errors.New("unsupported compression type")
)

// Rules are what a topic asks of a produced batch.
type Rules struct {
	BytesMax           int  // largest batch, compressed
	DecompressedMax    int  // limit on decompressed bytes
	Compacted          bool // every record needs a key
	TimestampType      TimestampType
	TimestampBeforeMax time.Duration // 0: unlimited
	TimestampAfterMax  time.Duration // 0: unlimited
	Codec              compress.Codec
	CodecLevel         int
	KeepCodec          bool // compression type producer: store the batch's own codec
}

// RecordError says what is wrong with one record of a batch.
type RecordError struct {
	Index   int32
	Message string
}

// BatchError is Validate's error when it can name records; Unwrap gives one of the errors above.
type BatchError struct {
	Err     error
	Message string
	Records []RecordError
}

func (e *BatchError) Error() string { panic("unwritten") }
func (e *BatchError) Unwrap() error { return e.Err }

// Valid is what Validate returns: a batch fit to be appended once offsets and epoch are set.
type Valid struct {
	Batch        Batch // the client's bytes, changed in place, or a recompressed copy
	MaxTimestamp int64 // ms
}

// Validate checks one produced batch (exactly one in buf) in the order of reference 1.4, stamps LogAppendTime, mends
// maxTimestamp and recompresses when the topic's codec demands it. Offsets and leader epoch are the log's to set.
// It may write into buf.
func Validate(buf []byte, rules Rules, now time.Time) (Valid, error) { panic("unwritten") }
