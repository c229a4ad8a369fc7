package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// These are the errors of Validate besides ErrCorrupt. Each maps to one Kafka error code.
var (
	ErrInvalidRecord    = errors.New("invalid record")
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	ErrMessageTooLarge  = errors.New("message too large")
	ErrUnsupportedCodec = errors.New("unsupported compression type")
)

// decompressedMaxDefault is the default limit for the decompressed size of a batch, in bytes.
const decompressedMaxDefault = 128 << 20

// Rules contains a topic's requirements for produced batches. The zero value accepts every
// well-formed batch and stores it uncompressed.
type Rules struct {
	BytesMax           int  // maximum size of a batch in bytes, as sent and as stored; 0: unlimited
	DecompressedMax    int  // maximum decompressed size of a batch in bytes; default 128 MiB
	RecordMax          int  // maximum size of a record in a compressed batch, in bytes; 0: unlimited
	Compacted          bool // true if every record needs a key, which may be empty
	TimestampType      TimestampType
	TimestampBeforeMax time.Duration // maximum age of a timestamp; 0: unlimited
	// TimestampAfterMax is the maximum time by which a timestamp may be in the future; 0: unlimited.
	TimestampAfterMax time.Duration
	Codec             compress.Codec
	CodecLevel        int
	KeepCodec         bool // true if the batch's codec is kept (compression.type=producer)
	// Compress compresses batches; it may be an instrumented function. The default is compress.To.
	Compress compress.Func

	// Keys, if set, is called for each record of the batch, in the order of their offsets. Validate
	// calls it while it checks the records, so the keys may be used only if Validate returns no error.
	Keys func(RecordKey)
}

// RecordKey is the argument of Rules.Keys. It is passed by value, so a call allocates nothing.
type RecordKey struct {
	Key       []byte // nil if null; refers to the batch or a buffer, and is valid only during the call
	Tombstone bool   // true if the record has a key and a null value, and so deletes its key
	// BodyBytes is the size of the record's encoding by the producer, without the length prefix.
	BodyBytes int
}

// decompressedMax returns the limit for a batch's decompressed bytes. If the size of records is
// limited, that limit also bounds the batch, so a batch beyond it is not decompressed to its end.
func (r Rules) decompressedMax(records int32) int {
	limit := r.DecompressedMax
	if limit == 0 {
		limit = decompressedMaxDefault
	}
	if r.RecordMax == 0 {
		return limit
	}
	return int(min(int64(limit), int64(max(0, records))*int64(r.RecordMax+binary.MaxVarintLen32)))
}

// codec returns the codec in which the batch is stored, and the level to use if it must be
// compressed. As in Kafka, a different level alone is no reason to recompress a batch. A batch in
// the topic's codec is recompressed, at the topic's level, only if its offset deltas must be
// corrected.
func (r Rules) codec(b Batch) (codec compress.Codec, level int) {
	if r.KeepCodec {
		return b.Codec(), compress.LevelDefault
	}
	return r.Codec, r.CodecLevel
}

// Valid is a validated batch. It can be appended after its offsets and leader epoch are set. It may
// use pooled memory, so the caller must call Release after writing it to the file.
type Valid struct {
	// Batch contains the client's bytes, changed in place, or the first piece of a recompressed or
	// rebuilt batch. Rest contains the other pieces (see Parts).
	Batch        Batch
	Rest         [][]byte
	MaxTimestamp int64 // in ms; the append time if the topic uses LogAppendTime
	memory       memory
}

// Parts returns all pieces of the batch.
func (v *Valid) Parts() Parts { return Parts{Batch: v.Batch, Rest: v.Rest} }

// Release returns the batch's memory to its pools. The batch must not be used afterwards.
func (v *Valid) Release() { v.memory.release() }

// Validate checks one produced batch, in Kafka's order; buf must contain exactly one. It sets the
// timestamps for LogAppendTime and corrects maxTimestamp. It recompresses the batch if the topic's
// codec differs or if the compressed data are a concatenation. The log sets offsets and leader
// epoch afterwards. Validate may write to buf.
//
// If Validate rejects the batch, the error wraps one of the errors above or ErrCorrupt, and is a
// *BatchError if it concerns single records. After an error, the contents of buf are undefined and
// must not be appended.
func Validate(buf []byte, rules Rules, now time.Time) (Valid, error) {
	b, err := singleBatch(buf)
	if err != nil {
		return Valid{}, err
	}
	if err := checkHeader(b, rules); err != nil {
		return Valid{}, err
	}
	payload, decompressed, single, err := b.decompressPayload(rules.decompressedMax(b.Count()))
	// ErrCorrupt or ErrTooLarge, for both of which the producer receives INVALID_RECORD
	if err != nil {
		return Valid{}, invalid("%v", err)
	}
	valid := Valid{Batch: b, memory: memory{buffer: decompressed}}
	if err := valid.apply(payload, single, rules, now); err != nil {
		valid.Release()
		return Valid{}, err
	}
	return valid, nil
}

// apply checks every record, and converts the batch to the form that the rules require. It
// recompresses data that are not a single stream, because some clients read only a part of them.
func (v *Valid) apply(payload []byte, single bool, rules Rules, now time.Time) error {
	found, err := inspect(v.Batch, payload, rules, now)
	if err != nil {
		return err
	}
	original := v.Batch
	switch codec, level := rules.codec(original); {
	case !found.consecutive:
		err = v.rebuild(payload, codec, level, rules.Compress)
	case codec != original.Codec(), !single:
		err = v.recompress(payload, codec, level, rules.Compress)
	default:
		v.memory.dropBuffer()
	}
	if err != nil {
		return err
	}
	parts := v.Parts()
	if setTimestamps(parts.Batch, rules, now, found.maxTimestamp) ||
		&parts.Batch[0] != &original[0] {
		if err := parts.seal(); err != nil {
			return err
		}
	}
	v.MaxTimestamp = parts.MaxTimestamp()
	return checkSize(parts.SizeBytes(), rules)
}

// singleBatch returns the only batch in buf.
func singleBatch(buf []byte) (Batch, error) {
	if len(buf) > magicAt && buf[magicAt] != magic {
		return nil, invalid("magic %d, want %d", int8(buf[magicAt]), magic)
	}
	b, rest, err := Next(buf)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, invalid("incomplete record batch")
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, invalid("%d bytes after the record batch, want exactly one batch", len(rest))
	}
	return b, nil
}

// checkHeader checks the header, with the cheapest checks first. It computes the checksum only if
// the batch is within the size limit.
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
	_, hasHorizon := b.DeleteHorizon()
	switch {
	case b.Count() <= 0:
		return invalid("%d records, want at least one", b.Count())
	case int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return invalid("%d records and last offset delta %d", b.Count(), b.LastOffsetDelta())
	case b.Control():
		return invalid("clients may not write control records")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid("producer id %d with base sequence %d", b.ProducerID(), b.BaseSequence())
	case hasHorizon:
		// Kafka has no such check. Without it, a client that sets a delete horizon could make the cleaner
		// remove tombstones before consumers read them.
		return invalid("clients may not set a delete horizon")
	case !b.Codec().Valid():
		return fmt.Errorf("%w: %s", ErrUnsupportedCodec, b.Codec())
	}
	return nil
}

// checkSize compares the stored size with max.message.bytes. It is called before and after
// recompression, because recompression may enlarge a batch.
func checkSize(size int, rules Rules) error {
	if rules.BytesMax > 0 && size > rules.BytesMax {
		return fmt.Errorf("%w: batch of %d bytes, at most %d allowed", ErrMessageTooLarge, size,
			rules.BytesMax)
	}
	return nil
}

// invalid returns an error for which producers receive INVALID_RECORD and the given text.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidRecord, fmt.Sprintf(format, args...))
}

// findings contains the results of inspect.
type findings struct {
	maxTimestamp int64
	consecutive  bool // true if the offset deltas are 0, 1, 2...
}

// inspect checks every record. It stops at a record that cannot be parsed, and collects the records
// that violate the topic's rules.
func inspect(b Batch, payload []byte, rules Rules, now time.Time) (findings, error) {
	found := findings{maxTimestamp: noTimestamp, consecutive: true}
	var rejected recordErrors
	index := int32(0)
	err := b.walkPayload(payload, func(r *Record) error {
		found.consecutive = found.consecutive && r.Offset == int64(index)
		found.maxTimestamp = max(found.maxTimestamp, r.Timestamp)
		if rules.RecordMax > 0 && r.bodyBytes > rules.RecordMax && b.Codec() != compress.None {
			return fmt.Errorf("record %d has %d bytes after it is decompressed, at most %d are "+
				"allowed (max.decompressed.message.bytes)", index, r.bodyBytes, rules.RecordMax)
		}
		if rules.Compacted && r.Key == nil {
			rejected.add(index, "records of a compacted topic must have a key")
		}
		if problem := checkTimestamp(b, r, rules, now); problem != "" {
			rejected.timestamps = true
			rejected.add(index, problem)
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
	return found, rejected.err()
}

// checkTimestamp returns a description of the problem with a record's timestamp, or "". It accepts
// a record without a timestamp (-1).
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

// setTimestamps sets the header's timestamps in place. It reports whether it has changed them, so
// that the checksum must be recomputed. For CreateTime it does not have to clear attribute bit 3
// (log append time), because inspect rejects batches in which the producer has set this bit.
func setTimestamps(b Batch, rules Rules, now time.Time, maxTimestamp int64) (changed bool) {
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
