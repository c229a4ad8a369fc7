package record

import (
	"errors"
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// What Validate finds wrong; each maps to one Kafka error code (reference 1.4). ErrCorrupt is
// another.
var (
	ErrInvalidRecord    = errors.New("invalid record")
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	ErrMessageTooLarge  = errors.New("message too large")
	ErrUnsupportedCodec = errors.New("unsupported compression type")
)

// decompressedMaxDefault bounds what a batch may decompress to unless the rules say otherwise.
const decompressedMaxDefault = 128 << 20

// Rules are what a topic asks of a produced batch. The zero value takes every batch of the right
// form, but stores it uncompressed.
type Rules struct {
	BytesMax           int  // largest batch, compressed; 0: unlimited
	DecompressedMax    int  // limit on decompressed bytes; default 128 MiB
	Compacted          bool // every record needs a key, which may be empty
	TimestampType      TimestampType
	TimestampBeforeMax time.Duration // 0: unlimited
	TimestampAfterMax  time.Duration // 0: unlimited
	Codec              compress.Codec
	CodecLevel         int
	KeepCodec          bool          // compression type producer: store the batch's own codec
	Compress           compress.Func // measures what is compressed again; default compress.To

	// Keys, if set, is told of each record of the batch, in the order of their offsets: the n-th
	// call is of the record that gets the n-th offset. It is called before the batch is known to be
	// valid, because that is when the records pass by: what it heard counts only once Validate
	// returned without an error.
	Keys func(RecordKey)
}

// RecordKey is what Rules.Keys hears of a record. It goes by value, so that a call allocates
// nothing.
type RecordKey struct {
	Key       []byte // nil when null; points into the batch or a buffer, valid during the call only
	Tombstone bool   // a key with a null value: the record deletes its key
	// size of the record's body as the producer encoded it, without the varint before it that says
	// so
	BodyBytes int
}

func (r Rules) decompressedMax() int {
	if r.DecompressedMax == 0 {
		return decompressedMaxDefault
	}
	return r.DecompressedMax
}

// codec is what the batch shall be stored in, and at which level it is compressed if it must be.
// The level alone never makes it compress again: what a producer compressed stays as it is
// (reference 1.4). But a batch in the topic's codec whose offsets are mended has to be compressed
// anew, and then it is the topic's level that counts.
func (r Rules) codec(b Batch) (codec compress.Codec, level int) {
	if r.KeepCodec {
		return b.Codec(), compress.LevelDefault
	}
	return r.Codec, r.CodecLevel
}

// Valid is what Validate returns: a batch fit to be appended once offsets and epoch are set. It may
// lie in memory from pools: Release is due once it is in the file.
type Valid struct {
	// Batch is the client's bytes, changed in place, or what was made anew of them. Then it may be
	// the first piece only, and Rest are the others: see Parts.
	Batch        Batch
	Rest         [][]byte
	MaxTimestamp int64 // ms; of Batch, so it is now for LogAppendTime
	memory       memory
}

// Parts returns the batch for the file.
func (v *Valid) Parts() Parts { return Parts{Batch: v.Batch, Rest: v.Rest} }

// Release gives back the memory. The batch must not be used any more.
func (v *Valid) Release() { v.memory.release() }

// Validate checks one produced batch (exactly one in buf) in the order of reference 1.4, stamps
// LogAppendTime, mends maxTimestamp and recompresses when the topic's codec demands it. Offsets and
// leader epoch are the log's to set. It may write into buf. What it finds wrong with the batch
// wraps one of the errors above or ErrCorrupt, and is a *BatchError where it can name records.
// After an error buf is not to be appended, whatever it holds.
func Validate(buf []byte, rules Rules, now time.Time) (Valid, error) {
	b, err := single(buf)
	if err != nil {
		return Valid{}, err
	}
	if err := checkHeader(b, rules); err != nil {
		return Valid{}, err
	}
	payload, unpacked, err := b.unpack(rules.decompressedMax())
	if err != nil { // ErrCorrupt or too large; to the producer both are invalid records
		return Valid{}, invalid("%v", err)
	}
	valid := Valid{Batch: b, memory: memory{buffer: unpacked}}
	if err := valid.make(payload, rules, now); err != nil {
		valid.Release()
		return Valid{}, err
	}
	return valid, nil
}

// make looks at every record of the batch, and makes it what the rules ask for.
func (v *Valid) make(payload []byte, rules Rules, now time.Time) error {
	found, err := inspect(v.Batch, payload, rules, now)
	if err != nil {
		return err
	}
	was := v.Batch
	switch codec, level := rules.codec(was); {
	case !found.inOrder:
		err = v.rebuild(payload, codec, level, rules.Compress)
	case codec != was.Codec():
		err = v.recompress(payload, codec, level, rules.Compress)
	default:
		v.memory.dropBuffer()
	}
	if err != nil {
		return err
	}
	made := v.Parts()
	if stamp(made.Batch, rules, now, found.maxTimestamp) || &made.Batch[0] != &was[0] {
		if err := made.seal(); err != nil {
			return err
		}
	}
	v.MaxTimestamp = made.MaxTimestamp()
	return checkSize(made.SizeBytes(), rules)
}

// single takes the one batch out of buf.
func single(buf []byte) (Batch, error) {
	if len(buf) > magicAt && buf[magicAt] != magic {
		return nil, invalid("magic %d, want %d", int8(buf[magicAt]), magic)
	}
	b, rest, err := Next(buf)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, invalid("no whole record batch")
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, invalid("%d bytes behind the record batch, want exactly one batch", len(rest))
	}
	return b, nil
}

// checkHeader holds the header against the rules, cheapest first: the checksum is computed only of
// batches of legal size.
func checkHeader(b Batch, rules Rules) error {
	if b.BaseOffset() != 0 {
		return invalid("base offset %d, want 0", b.BaseOffset())
	}
	if err := checkSize(len(b), rules); err != nil {
		return err
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	_, stamped := b.DeleteHorizon()
	switch {
	case b.Count() <= 0:
		return invalid("%d records, want at least one", b.Count())
	case int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return invalid("%d records and last offset delta %d", b.Count(), b.LastOffsetDelta())
	case b.Control():
		return invalid("clients may not write control records")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid("producer id %d with base sequence %d", b.ProducerID(), b.BaseSequence())
	case stamped:
		// Not in Kafka's list. A client that could set it could have tombstones removed before
		// anybody saw them.
		return invalid("clients may not set a delete horizon")
	case !b.Codec().Valid():
		return fmt.Errorf("%w: %s", ErrUnsupportedCodec, b.Codec())
	}
	return nil
}

// checkSize holds the batch as it is stored against max.message.bytes. It is asked twice:
// recompression may make a batch larger.
func checkSize(size int, rules Rules) error {
	if rules.BytesMax > 0 && size > rules.BytesMax {
		return fmt.Errorf("%w: batch of %d bytes, at most %d allowed", ErrMessageTooLarge, size,
			rules.BytesMax)
	}
	return nil
}

// invalid makes an error that producers see as INVALID_RECORD, with the text in their log.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidRecord, fmt.Sprintf(format, args...))
}

// findings are what a look at every record brings.
type findings struct {
	maxTimestamp int64
	inOrder      bool // offset deltas are 0, 1, 2...
}

// inspect looks at every record. Records that do not parse end it at once; records that break the
// topic's rules are gathered.
func inspect(b Batch, payload []byte, rules Rules, now time.Time) (findings, error) {
	found := findings{maxTimestamp: noTimestamp, inOrder: true}
	var wrong recordErrors
	index := int32(0)
	err := b.walkPayload(payload, func(r *Record) error {
		found.inOrder = found.inOrder && r.Offset == int64(index)
		found.maxTimestamp = max(found.maxTimestamp, r.Timestamp)
		if rules.Compacted && r.Key == nil {
			wrong.add(index, "a compacted topic takes no record without a key")
		}
		if complaint := checkTimestamp(b, r, rules, now); complaint != "" {
			wrong.timestamps = true
			wrong.add(index, complaint)
		}
		if rules.Keys != nil {
			rules.Keys(RecordKey{Key: r.Key, Tombstone: r.Tombstone(), BodyBytes: r.bodyBytes})
		}
		index++
		return nil
	})
	if err != nil {
		return found, invalid("%v", err)
	}
	return found, wrong.err()
}

// checkTimestamp returns what is wrong with a record's timestamp. -1 stands for none and is exempt.
func checkTimestamp(b Batch, r *Record, rules Rules, now time.Time) string {
	if b.TimestampType() == LogAppendTime {
		return "producers may not set log append time"
	}
	if rules.TimestampType == LogAppendTime || r.Timestamp == noTimestamp {
		return ""
	}
	nowMs := now.UnixMilli()
	if before := rules.TimestampBeforeMax; before > 0 && r.Timestamp < nowMs-before.Milliseconds() {
		return fmt.Sprintf("timestamp %d is more than %s in the past", r.Timestamp, before)
	}
	if after := rules.TimestampAfterMax; after > 0 && r.Timestamp > nowMs+after.Milliseconds() {
		return fmt.Sprintf("timestamp %d is more than %s in the future", r.Timestamp, after)
	}
	return ""
}

// stamp makes the header's timestamps right, in place, and tells whether that changed anything:
// then the checksum is to be computed again. Bit 3 need not be cleared for CreateTime: inspect
// refuses producers who set it.
func stamp(b Batch, rules Rules, now time.Time, maxTimestamp int64) (changed bool) {
	if rules.TimestampType == LogAppendTime {
		b.setAttributes(b.attributes() | logAppendTimeBit)
		b.setMaxTimestamp(now.UnixMilli())
		return true
	}
	if b.MaxTimestamp() == maxTimestamp {
		return false
	}
	b.setMaxTimestamp(maxTimestamp)
	return true
}
