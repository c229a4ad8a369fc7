package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"heartwood.dev/heartwood/internal/compress"
)

// HeaderBytes is the size of a batch header in bytes. The records follow the header.
const HeaderBytes = 61

// These are the positions of the header fields (docs/internals/format/batch.md).
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21 // the checksum covers the bytes from this position to the end of the batch
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	countAt           = 57

	lengthEnd = 12 // the field batchLength contains the number of bytes after this position
	magic     = 2
)

// These are attribute bits and special values.
const (
	codecMask        = 0b111
	logAppendTimeBit = 1 << 3
	transactionalBit = 1 << 4
	controlBit       = 1 << 5
	deleteHorizonBit = 1 << 6
	// noTimestamp is the timestamp of an empty batch, or of a record without a timestamp.
	noTimestamp       = -1
	sequenceNumberMax = math.MaxInt32 // after this sequence number, the next one is 0
)

// TimestampType is the source of a batch's timestamps: the producer or the broker.
type TimestampType int8

// These are the timestamp types, with Kafka's numbers (batch attributes, bit 3).
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// ErrCorrupt is wrapped by every error that means that bytes are not a valid record batch, or that
// its checksum does not match.
var ErrCorrupt = errors.New("corrupt record batch")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view of the bytes of exactly one record batch v2 (magic 2), as Next returns it. It
// never copies the bytes. Its length is 12 + batchLength >= HeaderBytes.
type Batch []byte

// Next splits the first batch off buf. It checks the length and the magic, but not the checksum. It
// returns io.ErrUnexpectedEOF if buf contains less than the whole batch, and an error that wraps
// ErrCorrupt if the length or the magic is invalid.
func Next(buf []byte) (first Batch, rest []byte, err error) {
	size, err := PeekSize(buf)
	if err != nil {
		return nil, buf, err
	}
	if size > len(buf) {
		return nil, buf, io.ErrUnexpectedEOF
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// PeekSize returns the size of a batch in bytes. header must begin with the batch's first 17 bytes;
// if it is shorter, PeekSize returns io.ErrUnexpectedEOF. Like Next, PeekSize checks the length and
// the magic. The returned size can be up to 2 GiB even if fewer bytes follow, so the caller must
// compare it with the available bytes before it allocates memory.
func PeekSize(header []byte) (int, error) {
	if len(header) <= magicAt {
		return 0, io.ErrUnexpectedEOF
	}
	if header[magicAt] != magic {
		return 0, fmt.Errorf("%w: magic %d, want %d", ErrCorrupt, int8(header[magicAt]), magic)
	}
	length := int32(binary.BigEndian.Uint32(header[lengthAt:]))
	if length < HeaderBytes-lengthEnd {
		return 0, fmt.Errorf("%w: batch length %d, want at least %d", ErrCorrupt, length,
			HeaderBytes-lengthEnd)
	}
	return lengthEnd + int(length), nil
}

// The accessors need no bounds checks, because a Batch has at least HeaderBytes bytes.
func (b Batch) int64At(index int) int64 { return int64(binary.BigEndian.Uint64(b[index:])) }
func (b Batch) int32At(index int) int32 { return int32(binary.BigEndian.Uint32(b[index:])) }
func (b Batch) int16At(index int) int16 { return int16(binary.BigEndian.Uint16(b[index:])) }
func (b Batch) attributes() int16       { return b.int16At(attributesAt) }

// BaseOffset is the first offset that the batch covers. Cleaning may have removed the record at
// this offset.
func (b Batch) BaseOffset() int64 { return b.int64At(baseOffsetAt) }

// LastOffset is the last offset that the batch covers. Cleaning never changes LastOffset, because
// consumers continue at LastOffset + 1.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is LastOffset + 1.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch. It is -1 in a batch from a
// client.
func (b Batch) LeaderEpoch() int32 { return b.int32At(leaderEpochAt) }

// CRC is the checksum in the header.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[crcAt:]) }

// Codec returns the compression codec, which may be invalid (5 to 7).
func (b Batch) Codec() compress.Codec { return compress.Codec(b.attributes() & codecMask) }

// TimestampType returns the source of the records' timestamps.
func (b Batch) TimestampType() TimestampType {
	return TimestampType(b.attributes() & logAppendTimeBit >> 3)
}

// Transactional reports whether the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.attributes()&transactionalBit != 0 }

// Control reports whether the batch contains a transaction marker instead of data.
func (b Batch) Control() bool { return b.attributes()&controlBit != 0 }

// DeleteHorizon returns the time (ms) from which the batch's tombstones may be removed. ok is false
// if the batch has no delete horizon.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	if b.attributes()&deleteHorizonBit == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.int32At(lastOffsetDeltaAt) }

// BaseTimestamp is the timestamp (ms) to which the records' timestamp deltas are relative. It is
// the first record's timestamp, or the delete horizon if the batch has one.
func (b Batch) BaseTimestamp() int64 { return b.int64At(baseTimestampAt) }

// MaxTimestamp is the largest timestamp of the records (ms). With LogAppendTime, every record has
// this timestamp.
func (b Batch) MaxTimestamp() int64 { return b.int64At(maxTimestampAt) }

// ProducerID is the id of an idempotent producer, or -1 for other producers.
func (b Batch) ProducerID() int64 { return b.int64At(producerIDAt) }

// ProducerEpoch is the epoch of an idempotent producer, or -1 for other producers.
func (b Batch) ProducerEpoch() int16 { return b.int16At(producerEpochAt) }

// BaseSequence is the sequence number of BaseOffset, or -1 if the batch has no sequence numbers.
func (b Batch) BaseSequence() int32 { return b.int32At(baseSequenceAt) }

// LastSequence is the sequence number of LastOffset, or -1 if the batch has no sequence numbers.
// The number after 2^31-1 is 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() < 0 {
		return -1
	}
	last := int64(b.BaseSequence()) + int64(b.LastOffsetDelta())
	if last > sequenceNumberMax {
		last -= sequenceNumberMax + 1
	}
	return int32(last)
}

// Count is the number of records according to the header.
func (b Batch) Count() int32 { return b.int32At(countAt) }

// CheckCRC returns an error that wraps ErrCorrupt if the checksum does not match. The checksum
// covers the bytes from the attributes on. It does not cover the preceding fields: base offset,
// length, leader epoch and magic.
func (b Batch) CheckCRC() error {
	if sum := crc32.Checksum(b[attributesAt:], castagnoli); sum != b.CRC() {
		return fmt.Errorf("%w: checksum %#08x at offset %d, want %#08x", ErrCorrupt, sum,
			b.BaseOffset(), b.CRC())
	}
	return nil
}

// SetBaseOffset sets the base offset in place. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[baseOffsetAt:], uint64(offset))
}

// SetLeaderEpoch sets the leader epoch in place. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[leaderEpochAt:], uint32(epoch))
}

// setMaxTimestamp sets the field in place. The caller must call setCRC afterwards.
func (b Batch) setMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[maxTimestampAt:], uint64(ms))
}

// setAttributes sets the field in place. The caller must call setCRC afterwards.
func (b Batch) setAttributes(attributes int16) {
	binary.BigEndian.PutUint16(b[attributesAt:], uint16(attributes))
}

// setCRC recomputes the checksum over b and over the batch's other pieces, which the caller passes
// as rest. The caller must call setCRC after every other change to the batch.
func (b Batch) setCRC(rest ...[]byte) {
	sum := crc32.Checksum(b[attributesAt:], castagnoli)
	for _, piece := range rest {
		sum = crc32.Update(sum, castagnoli, piece)
	}
	binary.BigEndian.PutUint32(b[crcAt:], sum)
}
