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

// HeaderBytes is the size of a batch's header; the records begin there.
const HeaderBytes = 61

// Where a batch's fields stand (docs/format/batch.md).
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21 // the checksum covers the batch from here on
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	countAt           = 57

	lengthEnd = 12 // batchLength counts the bytes from here on
	magic     = 2
)

// The attributes, and the numbers with a meaning of their own.
const (
	codecMask         = 0b111
	logAppendTimeBit  = 1 << 3
	transactionalBit  = 1 << 4
	controlBit        = 1 << 5
	deleteHorizonBit  = 1 << 6
	noTimestamp       = -1            // of a record without one, and of an empty batch
	sequenceNumberMax = math.MaxInt32 // 0 comes after it
)

// TimestampType says whose clock stamped a batch's records.
type TimestampType int8

// The timestamp types, with Kafka's numbers (batch attributes, bit 3).
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// ErrCorrupt is wrapped by every error about bytes that are no record batch, or whose checksum does
// not match.
var ErrCorrupt = errors.New("corrupt record batch")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view over the bytes of exactly one record batch v2 (magic 2); it never copies.
// Make one with Next; its length is 12 + batchLength >= HeaderBytes.
type Batch []byte

// Next splits the first batch off buf. It checks length and magic, not the checksum. It returns
// io.ErrUnexpectedEOF if buf holds less than the whole batch, and an error wrapping ErrCorrupt for
// nonsense.
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

// PeekSize returns the size in bytes of the batch that begins with header (at least 17 bytes), as
// Next checks it. The size is a claim, of up to 2 GiB: the caller holds it against what there is
// before he allocates. A shorter header gives io.ErrUnexpectedEOF.
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

// The fields are read without a check: a Batch is at least HeaderBytes long.
func (b Batch) int64At(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
func (b Batch) int32At(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int16At(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) attributes() int16    { return b.int16At(attributesAt) }

// BaseOffset is the first offset the batch covers; no record need be there any more.
func (b Batch) BaseOffset() int64 { return b.int64At(baseOffsetAt) }

// LastOffset is the last offset the batch covers. Cleaning never changes it: consumers go on behind
// it.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is LastOffset + 1.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch, -1 from a client.
func (b Batch) LeaderEpoch() int32 { return b.int32At(leaderEpochAt) }

// CRC is the checksum in the header.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[crcAt:]) }

// Codec may be invalid: five to seven.
func (b Batch) Codec() compress.Codec { return compress.Codec(b.attributes() & codecMask) }

// TimestampType says whose clock stamped the records.
func (b Batch) TimestampType() TimestampType {
	return TimestampType(b.attributes() & logAppendTimeBit >> 3)
}

// Transactional tells whether the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.attributes()&transactionalBit != 0 }

// Control tells whether the batch holds a transaction marker rather than data.
func (b Batch) Control() bool { return b.attributes()&controlBit != 0 }

// DeleteHorizon returns the time (ms) from which the batch's tombstones may go; ok is false if none
// is stamped.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	if b.attributes()&deleteHorizonBit == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.int32At(lastOffsetDeltaAt) }

// BaseTimestamp is what the records' timestamps are counted from (ms): the first record's, or the
// delete horizon.
func (b Batch) BaseTimestamp() int64 { return b.int64At(baseTimestampAt) }

// MaxTimestamp is the largest timestamp of the records (ms); with LogAppendTime it is each
// record's.
func (b Batch) MaxTimestamp() int64 { return b.int64At(maxTimestampAt) }

// ProducerID is -1 for a producer without idempotence.
func (b Batch) ProducerID() int64 { return b.int64At(producerIDAt) }

// ProducerEpoch is -1 for a producer without idempotence.
func (b Batch) ProducerEpoch() int16 { return b.int16At(producerEpochAt) }

// BaseSequence is the sequence number of the first record, -1 for none.
func (b Batch) BaseSequence() int32 { return b.int32At(baseSequenceAt) }

// LastSequence is the sequence number of the last record, which wraps from 2^31-1 to 0; -1 for
// none.
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

// Count is how many records the batch says it holds.
func (b Batch) Count() int32 { return b.int32At(countAt) }

// CheckCRC returns an error wrapping ErrCorrupt if the checksum does not match. It vouches for the
// bytes from the attributes on; base offset, length, leader epoch and magic lie before them.
func (b Batch) CheckCRC() error {
	if sum := crc32.Checksum(b[attributesAt:], castagnoli); sum != b.CRC() {
		return fmt.Errorf("%w: checksum %#08x at offset %d, want %#08x", ErrCorrupt, sum,
			b.BaseOffset(), b.CRC())
	}
	return nil
}

// SetBaseOffset writes in place; it lies outside the checksum.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[baseOffsetAt:], uint64(offset))
}

// SetLeaderEpoch writes in place; it lies outside the checksum.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[leaderEpochAt:], uint32(epoch))
}

// setMaxTimestamp writes in place and leaves the checksum wrong: setCRC comes last.
func (b Batch) setMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[maxTimestampAt:], uint64(ms))
}

// setAttributes writes in place and leaves the checksum wrong: setCRC comes last.
func (b Batch) setAttributes(attributes int16) {
	binary.BigEndian.PutUint16(b[attributesAt:], uint16(attributes))
}

// setCRC computes the checksum anew, over the batch and what of it lies elsewhere, behind b; it is
// the last of the changes.
func (b Batch) setCRC(rest ...[]byte) {
	sum := crc32.Checksum(b[attributesAt:], castagnoli)
	for _, piece := range rest {
		sum = crc32.Update(sum, castagnoli, piece)
	}
	binary.BigEndian.PutUint32(b[crcAt:], sum)
}
