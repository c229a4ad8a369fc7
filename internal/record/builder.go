package record

import (
	"encoding/binary"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
)

// Identity is what a rebuilt batch keeps of the batch it came from: everything that others count
// on, and that its records do not give. Recovery makes producer state and leader epochs of it,
// consumers go on by it.
type Identity struct {
	BaseOffset int64
	// LastOffsetDelta stays though the last records go: a consumer asks for BaseOffset +
	// LastOffsetDelta + 1 next, and one that were told less would ask for the same batch for ever
	// (reference 1.2). It also gives the last sequence number (I25).
	LastOffsetDelta int32
	LeaderEpoch     int32
	TimestampType   TimestampType
	// ms; used only for LogAppendTime and for an empty batch, else it is computed from the records
	MaxTimestamp  int64
	Transactional bool
	Control       bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // of BaseOffset, whether a record is left there or not
	// 0: none. Takes the place of the base timestamp (KIP-534); the records' deltas are counted
	// from it
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

// attributes are the header's flags of a batch in this codec.
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

// Builder makes one batch at a time: Reset, Add for each record, Build. The zero value is not
// usable; see NewBuilder. Reset reuses its buffers. It is not safe for concurrent use.
type Builder struct {
	codec    compress.Codec
	level    int
	compress compress.Func

	id Identity
	// buffer is room for the header, then the records, encoded, uncompressed: a batch that stays so
	// is made in place, and compression needs all records at once.
	buffer []byte
	chunks *compress.Chunks // of the batch that Encode made last, if it is compressed
	count  int32
	last   int64 // delta of the last record added, -1 at first; deltas ascend

	// baseTimestamp is fixed before the first record is encoded, because deltas are: the horizon,
	// or the first record's timestamp.
	baseTimestamp, maxTimestamp int64
	err                         error // the first broken rule of Add; Build returns it
}

// NewBuilder returns a builder that compresses with codec at level (or compress.LevelDefault).
// Control batches are never compressed (reference 1.4).
func NewBuilder(codec compress.Codec, level int) *Builder {
	return &Builder{codec: codec, level: level, compress: compress.To}
}

// emptyHeader is what stands before the records until the header is known.
var emptyHeader [HeaderBytes]byte

// Reset begins a new batch, and forgets the one before, built or not: what Encode returned is valid
// until then. Codec, level and buffers stay.
func (b *Builder) Reset(id Identity) {
	b.Release()
	b.id, b.buffer, b.count, b.last, b.err = id, append(b.buffer[:0], emptyHeader[:]...), 0, -1, nil
	b.baseTimestamp, b.maxTimestamp = id.DeleteHorizonMs, noTimestamp
}

// SetCodec changes the codec and level of the batches to come.
func (b *Builder) SetCodec(codec compress.Codec, level int) { b.codec, b.level = codec, level }

// CompressWith makes the builder compress with f from now on, which must do what compress.To does;
// nil stands for that.
func (b *Builder) CompressWith(f compress.Func) {
	if f == nil {
		f = compress.To
	}
	b.compress = f
}

// Add appends a record; offsets ascend and lie in [BaseOffset, BaseOffset+LastOffsetDelta]. A
// record that breaks this makes Build fail, so that Add needs no error at every call. The record is
// encoded at once: r and its slices may be reused.
func (b *Builder) Add(r *Record) {
	delta := r.Offset - b.id.BaseOffset
	if b.err == nil && (delta <= b.last || delta > int64(b.id.LastOffsetDelta)) {
		b.err = fmt.Errorf("add offset %d after delta %d to a batch of [%d, +%d]",
			r.Offset, b.last, b.id.BaseOffset, b.id.LastOffsetDelta)
	}
	if b.count == 0 && b.id.DeleteHorizonMs == 0 {
		b.baseTimestamp = r.Timestamp
	}
	b.last = delta // also of a record that is out of place: the first fault is the one that is told
	b.count++
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.buffer = appendRecord(b.buffer, r, r.Timestamp-b.baseTimestamp, delta)
}

// Count returns how many records were added.
func (b *Builder) Count() int { return int(b.count) }

// SizeBytes is how much memory the builder's buffers hold.
func (b *Builder) SizeBytes() int { return cap(b.buffer) + b.chunks.Len() }

// Build appends the finished batch to dst: Encode, and a copy. On an error dst is returned as it
// was.
func (b *Builder) Build(dst []byte) ([]byte, error) {
	parts, err := b.Encode()
	if err != nil {
		return dst, err
	}
	return parts.AppendTo(dst), nil
}

// Encode finishes the batch, checksum included, and returns it where it was made: valid until Reset
// or Release. Without records it makes the empty batch of reference 1.2: no codec, for there is
// nothing to decompress; no horizon, for there is no tombstone; base timestamp -1 and the old
// maximum, so that what goes by a segment's largest timestamp (retention, lag) sees no change.
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

// encodeRecords returns the records in codec, which is the builder's own, with its level, or none,
// behind room for the header.
func (b *Builder) encodeRecords(codec compress.Codec) (Parts, error) {
	if codec == compress.None {
		return Whole(b.buffer), nil
	}
	b.Release() // of an Encode before this one
	b.chunks = compress.NewChunks()
	b.chunks.Reserve(HeaderBytes)
	if err := b.compress(b.chunks, b.buffer[HeaderBytes:], codec, b.level); err != nil {
		return Parts{}, err
	}
	return partsOf(b.chunks), nil
}

// Release gives back the chunks of what Encode returned, which must not be used any more. Reset
// does it too.
func (b *Builder) Release() {
	b.chunks.Release()
	b.chunks = nil
}

// putHeader writes all of the header but length, attributes, count and checksum.
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

// appendRecord encodes one record: its body's length, then the body. The length is computed first,
// rather than written into a gap afterwards: it is a varint, and how wide the gap must be is not
// known before.
func appendRecord(dst []byte, r *Record, timestampDelta, offsetDelta int64) []byte {
	body := 1 + varintSize(timestampDelta) + varintSize(offsetDelta) + nullableSize(r.Key) +
		nullableSize(r.Value) +
		varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		body += nullableSize(h.Key) + nullableSize(h.Value)
	}
	dst = appendVarint(dst, int64(body))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = appendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = appendNullable(dst, h.Key)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

// nullableSize is how many bytes appendNullable takes.
func nullableSize(value []byte) int {
	if value == nil {
		return 1
	}
	return varintSize(int64(len(value))) + len(value)
}

// appendNullable writes a length and the bytes; -1 for nil. An empty slice that is not nil has
// length 0: an empty key is a key.
func appendNullable(dst, value []byte) []byte {
	if value == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(value))), value...)
}
