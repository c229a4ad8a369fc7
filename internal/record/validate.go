package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// Errors of Validate besides ErrCorrupt. Each maps to one Kafka error code.
var (
	ErrInvalidRecord    = errors.New("invalid record")
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	ErrMessageTooLarge  = errors.New("message too large")
	ErrUnsupportedCodec = errors.New("unsupported compression type")
)

// decompressedMaxDefault is the default limit on the decompressed size of a batch, in bytes.
const decompressedMaxDefault = 128 << 20

// Rules are a topic's requirements for produced batches. The zero value accepts every well-formed
// batch and stores it uncompressed.
type Rules struct {
	BytesMax           int  // maximum size of a batch, as sent and as stored; 0: unlimited
	DecompressedMax    int  // limit on decompressed bytes; default 128 MiB
	RecordMax          int  // maximum size of a record of a compressed batch; 0: unlimited
	Compacted          bool // every record needs a key, which may be empty
	TimestampType      TimestampType
	TimestampBeforeMax time.Duration // 0: unlimited
	TimestampAfterMax  time.Duration // 0: unlimited
	Codec              compress.Codec
	CodecLevel         int
	KeepCodec          bool          // compression.type=producer: keep the batch's codec
	Compress           compress.Func // instruments recompression; default compress.To

	// Keys, if set, is called for each record of the batch, in the order of their offsets. The
	// calls happen while the records are checked, so they may be used only if Validate returns no
	// error.
	Keys func(RecordKey)
}

// RecordKey is the argument of Rules.Keys. It is passed by value, so that a call allocates nothing.
type RecordKey struct {
	Key       []byte // nil when null; points into the batch or a buffer, valid during the call only
	Tombstone bool   // the record has a key and a null value, and so deletes its key
	// BodyBytes is the encoded size of the record as sent by the producer, without its length
	// prefix.
	BodyBytes int
}

// decompressedMax returns the limit on the decompressed bytes of a batch. If the size of records is
// limited, the limit also bounds the batch, so that a batch beyond it is not decompressed to its
// end.
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

// codec returns the codec in which the batch is stored, and the level of compression if it must be
// compressed. As in Kafka, a batch is not recompressed only because the level differs. A batch in
// the topic's codec is recompressed, at the topic's level, only if its offset deltas have to be
// corrected.
func (r Rules) codec(b Batch) (codec compress.Codec, level int) {
	if r.KeepCodec {
		return b.Codec(), compress.LevelDefault
	}
	return r.Codec, r.CodecLevel
}

// Valid is a validated batch, ready to be appended once its offsets and leader epoch are set. It
// may use pooled memory: call Release after it is written to the file.
type Valid struct {
	// Batch contains the client's bytes, changed in place, or the first piece of a recompressed or
	// rebuilt batch. Rest contains the other pieces (see Parts).
	Batch        Batch
	Rest         [][]byte
	MaxTimestamp int64 // ms; the append time for LogAppendTime
	memory       memory
}

// Parts returns all pieces of the batch.
func (v *Valid) Parts() Parts { return Parts{Batch: v.Batch, Rest: v.Rest} }

// Release returns the memory of the batch to its pools. The batch must not be used afterwards.
func (v *Valid) Release() { v.memory.release() }

// Validate checks one produced batch (exactly one in buf) in Kafka's order, sets the timestamps of
// LogAppendTime, corrects maxTimestamp and recompresses the batch if the topic's codec differs or
// its compressed data are a concatenation. The log sets offsets and leader epoch afterwards.
// Validate may write to buf. The error of a rejected batch wraps one of the errors above or
// ErrCorrupt, and is a *BatchError if it concerns single records. After an error the contents of
// buf are undefined and must not be appended.
func Validate(buf []byte, rules Rules, now time.Time) (Valid, error) {
	b, err := singleBatch(buf)
	if err != nil {
		return Valid{}, err
	}
	if err := checkHeader(b, rules); err != nil {
		return Valid{}, err
	}
	payload, decompressed, single, err := b.decompressPayload(rules.decompressedMax(b.Count()))
	if err != nil { // ErrCorrupt or ErrTooLarge; both become INVALID_RECORD for the producer
		return Valid{}, invalid("%v", err)
	}
	valid := Valid{Batch: b, memory: memory{buffer: decompressed}}
	if err := valid.apply(payload, single, rules, now); err != nil {
		valid.Release()
		return Valid{}, err
	}
	return valid, nil
}

// apply checks every record and converts the batch to the form that the rules require. Compressed
// data that are not a single stream are compressed again, because some clients read only a part.
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

// checkHeader checks the header, cheapest checks first: the checksum is computed only for batches
// within the size limit.
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
		// Kafka has no such check. A client that sets a delete horizon could have tombstones
		// removed before consumers read them.
		return invalid("clients may not set a delete horizon")
	case !b.Codec().Valid():
		return fmt.Errorf("%w: %s", ErrUnsupportedCodec, b.Codec())
	}
	return nil
}

// checkSize compares the stored size with max.message.bytes. It is called before and after
// recompression, which may enlarge a batch.
func checkSize(size int, rules Rules) error {
	if rules.BytesMax > 0 && size > rules.BytesMax {
		return fmt.Errorf("%w: batch of %d bytes, at most %d allowed", ErrMessageTooLarge, size,
			rules.BytesMax)
	}
	return nil
}

// invalid returns an error that producers receive as INVALID_RECORD, with the text as its message.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidRecord, fmt.Sprintf(format, args...))
}

// findings are the results of inspect.
type findings struct {
	maxTimestamp int64
	consecutive  bool // offset deltas are 0, 1, 2...
}

// inspect checks every record. It stops at a record that does not parse, and collects the records
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

// checkTimestamp returns the problem with a record's timestamp, or "". A record without a timestamp
// (-1) is exempt.
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

// setTimestamps sets the header's timestamps in place. It reports whether it changed them and the
// checksum must be recomputed. For CreateTime it need not clear attribute bit 3 (log append time),
// because inspect rejects batches in which the producer set this bit.
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
