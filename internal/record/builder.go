package record

import (
	"encoding/binary"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
)

// Identity contains the header fields that a rebuilt batch keeps from its original batch, because
// its records do not determine them. Recovery rebuilds producer state and leader epochs from these
// fields, and consumers compute their next offset from them.
type Identity struct {
	BaseOffset int64
	// LastOffsetDelta is kept even if the last records are removed. A consumer continues at the offset
	// after LastOffset, so with a smaller delta it would fetch the same batch forever. LastOffsetDelta
	// also determines the last sequence number (invariant I25 of
	// docs/internals/cleaner-invariants.md).
	LastOffsetDelta int32
	LeaderEpoch     int32
	TimestampType   TimestampType
	// MaxTimestamp is in ms. It is used for LogAppendTime and for a batch without records. Otherwise
	// the builder computes the maximum from the records.
	MaxTimestamp  int64
	Transactional bool
	Control       bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // sequence number of BaseOffset, even if that record was removed
	// DeleteHorizonMs is in ms; 0 means that the batch has no delete horizon. The batch stores the
	// horizon as its base timestamp (KIP-534), so the timestamp deltas are relative to the horizon.
	DeleteHorizonMs int64
}

// IdentityOf returns a batch's identity.
func IdentityOf(b Batch) Identity {
	horizon, _ := b.DeleteHorizon()
	return Identity{
		BaseOffset:      b.BaseOffset(),
		LastOffsetDelta: b.LastOffsetDelta(),
		LeaderEpoch:     b.LeaderEpoch(),
		TimestampType:   b.TimestampType(),
		MaxTimestamp:    b.MaxTimestamp(),
		Transactional:   b.Transactional(),
		Control:         b.Control(),
		ProducerID:      b.ProducerID(),
		ProducerEpoch:   b.ProducerEpoch(),
		BaseSequence:    b.BaseSequence(),
		DeleteHorizonMs: horizon,
	}
}

// attributes returns the attributes field of a batch that is compressed with codec.
func (id Identity) attributes(codec compress.Codec) int16 {
	attributes := int16(codec) | int16(id.TimestampType)<<3
	if id.Transactional {
		attributes |= transactionalBit
	}
	if id.Control {
		attributes |= controlBit
	}
	if id.DeleteHorizonMs != 0 {
		attributes |= deleteHorizonBit
	}
	return attributes
}

// Builder builds one batch at a time: call Reset, then Add for each record, then Build or Encode.
// Reset starts the next batch and reuses the buffers. NewBuilder creates a Builder. A Builder is
// not safe for concurrent use.
type Builder struct {
	codec    compress.Codec
	level    int
	compress compress.Func

	id Identity
	// buffer contains space for the header, then the encoded, uncompressed records. An uncompressed
	// batch is completed in this buffer. For a compressed batch, the codec reads all records from it
	// at once.
	buffer []byte
	// chunks is the memory of the last batch that Encode returned; nil if that batch is uncompressed.
	chunks *compress.Chunks
	count  int32
	last   int64 // offset delta of the last added record, or -1; deltas ascend

	// baseTimestamp is the delete horizon, or the first record's timestamp. It is set before the first
	// record is encoded, because the timestamp deltas depend on it.
	baseTimestamp, maxTimestamp int64
	err                         error // first violation that Add found; Build returns it
}

// NewBuilder returns a builder that compresses batches with codec at level (or
// compress.LevelDefault). It never compresses control batches.
func NewBuilder(codec compress.Codec, level int) *Builder {
	return &Builder{codec: codec, level: level, compress: compress.To}
}

// emptyHeader is appended to reserve the space before the records until the header is known.
var emptyHeader [HeaderBytes]byte

// Reset starts a new batch and discards the previous one, even if it was not built. The result of
// an earlier Encode becomes invalid. Codec, level and buffers are kept.
func (b *Builder) Reset(id Identity) {
	b.Release()
	b.id, b.buffer, b.count, b.last, b.err = id, append(b.buffer[:0], emptyHeader[:]...), 0, -1, nil
	b.baseTimestamp, b.maxTimestamp = id.DeleteHorizonMs, noTimestamp
}

// SetCodec sets the codec and level of subsequent batches.
func (b *Builder) SetCodec(codec compress.Codec, level int) { b.codec, b.level = codec, level }

// CompressWith sets the compression function, which must behave like compress.To. A nil function
// selects compress.To.
func (b *Builder) CompressWith(f compress.Func) {
	if f == nil {
		f = compress.To
	}
	b.compress = f
}

// Add appends a record. Offsets must ascend within [BaseOffset, BaseOffset+LastOffsetDelta]. If a
// record violates this, Build fails, so callers do not have to check an error after every Add. Add
// encodes the record immediately: the caller may reuse r and its slices.
func (b *Builder) Add(r *Record) {
	delta := r.Offset - b.id.BaseOffset
	if b.err == nil && (delta <= b.last || delta > int64(b.id.LastOffsetDelta)) {
		b.err = fmt.Errorf("add offset %d after delta %d to a batch of [%d, +%d]",
			r.Offset, b.last, b.id.BaseOffset, b.id.LastOffsetDelta)
	}
	if b.count == 0 && b.id.DeleteHorizonMs == 0 {
		b.baseTimestamp = r.Timestamp
	}
	b.last = delta // set even after a violation, because only the first violation is reported
	b.count++
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.buffer = appendRecord(b.buffer, r, r.Timestamp-b.baseTimestamp, delta)
}

// Count returns the number of records added.
func (b *Builder) Count() int { return int(b.count) }

// SizeBytes returns the memory that the builder's buffers occupy.
func (b *Builder) SizeBytes() int { return cap(b.buffer) + b.chunks.Len() }

// Build appends a copy of the batch that Encode returns to dst. If Encode fails, it returns dst
// unchanged.
func (b *Builder) Build(dst []byte) ([]byte, error) {
	parts, err := b.Encode()
	if err != nil {
		return dst, err
	}
	return parts.AppendTo(dst), nil
}

// Encode finishes the batch, including its checksum, and returns it without a copy. The result is
// valid until Reset or Release. If no record was added, Encode returns the empty batch of
// docs/internals/format/batch.md. An empty batch has no codec, because there is nothing to
// decompress, and no delete horizon, because there is no tombstone. Its base timestamp is -1. It
// keeps the original maximum timestamp, so that the segment's largest timestamp (used for retention
// and lag) does not change.
func (b *Builder) Encode() (Parts, error) {
	if b.err != nil {
		return Parts{}, fmt.Errorf("build batch: %w", b.err)
	}
	id, codec := b.id, b.codec
	if id.Control || b.count == 0 {
		codec = compress.None
	}
	maxTimestamp := b.maxTimestamp
	if id.TimestampType == LogAppendTime || b.count == 0 {
		maxTimestamp = id.MaxTimestamp
	}
	if b.count == 0 {
		b.baseTimestamp, id.DeleteHorizonMs = noTimestamp, 0
	}
	parts, err := b.encodeRecords(codec)
	if err != nil {
		return Parts{}, fmt.Errorf("build batch: %w", err)
	}
	putHeader(parts.Batch, id, b.baseTimestamp, maxTimestamp)
	parts.setAttributes(id.attributes(codec))
	binary.BigEndian.PutUint32(parts.Batch[countAt:], uint32(b.count))
	return parts, parts.seal()
}

// encodeRecords returns the records, compressed with codec, after space for the header. codec is
// the builder's codec or compress.None.
func (b *Builder) encodeRecords(codec compress.Codec) (Parts, error) {
	if codec == compress.None {
		return Whole(b.buffer), nil
	}
	b.Release() // releases the chunks of a previous Encode
	b.chunks = compress.NewChunks()
	b.chunks.Reserve(HeaderBytes)
	if err := b.compress(b.chunks, b.buffer[HeaderBytes:], codec, b.level); err != nil {
		return Parts{}, err
	}
	return partsOf(b.chunks), nil
}

// Release releases the chunks of the batch that Encode returned. The batch must not be used
// afterwards. Reset also releases the chunks.
func (b *Builder) Release() {
	b.chunks.Release()
	b.chunks = nil
}

// putHeader writes all header fields except length, attributes, count and checksum.
func putHeader(b Batch, id Identity, baseTimestamp, maxTimestamp int64) {
	b.SetBaseOffset(id.BaseOffset)
	b.SetLeaderEpoch(id.LeaderEpoch)
	b[magicAt] = magic
	binary.BigEndian.PutUint32(b[lastOffsetDeltaAt:], uint32(id.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[baseTimestampAt:], uint64(baseTimestamp))
	b.setMaxTimestamp(maxTimestamp)
	binary.BigEndian.PutUint64(b[producerIDAt:], uint64(id.ProducerID))
	binary.BigEndian.PutUint16(b[producerEpochAt:], uint16(id.ProducerEpoch))
	binary.BigEndian.PutUint32(b[baseSequenceAt:], uint32(id.BaseSequence))
}

// appendRecord encodes one record: the length of its body, then the body. The length is a varint,
// so the number of its bytes depends on its value. Therefore appendRecord computes the length
// before it encodes the body.
func appendRecord(dst []byte, r *Record, timestampDelta, offsetDelta int64) []byte {
	body := 1 + varintSize(timestampDelta) + varintSize(offsetDelta) + nullableSize(r.Key) +
		nullableSize(r.Value) + headersSize(r)
	dst = appendVarint(dst, int64(body))
	dst = append(dst, 0) // the attributes byte
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	return appendHeaders(dst, r)
}

// nullableSize returns the number of bytes that appendNullable appends.
func nullableSize(value []byte) int {
	if value == nil {
		return 1
	}
	return varintSize(int64(len(value))) + len(value)
}

// appendNullable appends the length and the bytes of value, or length -1 for nil. A non-nil empty
// slice has length 0: an empty key is not a null key.
func appendNullable(dst, value []byte) []byte {
	if value == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(value))), value...)
}
