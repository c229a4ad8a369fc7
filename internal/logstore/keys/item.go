package keys

import (
	"encoding/binary"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// Bits of an item's attributes. An item is the encoding of a Batch in the section of batches. Its
// attributes are the batch's attributes (docs/internals/format/batch.md) with one more bit,
// opaqueBit.
const (
	codecMask        = 0b111
	logAppendTimeBit = 1 << 3
	transactionalBit = 1 << 4
	controlBit       = 1 << 5
	horizonBit       = 1 << 6
	opaqueBit        = 1 << 7
)

// Bits of an item's shape, which states the optional fields that are present and the marker.
const (
	producerBit = 1 << iota
	leaderEpochBit
	countBit
	gapBit
	markerShift   = 4
	shapeMask     = producerBit | leaderEpochBit | countBit | gapBit | 0b11<<markerShift
	batchBytesMin = 61 // size of a batch header
	// itemBytesMax is the largest size of an item: two bytes, the checksum, four numbers of up to 5
	// bytes, one number of up to 3 bytes, and five numbers of up to 10 bytes.
	itemBytesMax = 2 + 4 + 4*binary.MaxVarintLen32 + binary.MaxVarintLen16 +
		5*binary.MaxVarintLen64
)

// itemContext contains the values that follow from the previous batch. An item does not contain
// these values, because encoder and decoder maintain the same context.
type itemContext struct {
	position      int64
	next          int64 // lowest possible offset of the next batch
	ordinal       uint32
	producerID    int64
	producerEpoch int16
	leaderEpoch   int32
	maxTimestamp  int64
}

// startOf returns the context of the first batch of a segment.
func startOf(base int64) itemContext {
	return itemContext{next: base, producerID: -1, producerEpoch: -1}
}

// advance updates the context for the batch that follows b.
func (p *itemContext) advance(b Batch) {
	*p = itemContext{
		position: p.position + int64(b.SizeBytes), next: b.LastOffset + 1,
		ordinal:    p.ordinal + uint32(b.Records),
		producerID: b.ProducerID, producerEpoch: b.ProducerEpoch, leaderEpoch: b.LeaderEpoch,
		maxTimestamp: b.MaxTimestamp,
	}
}

// check validates the next batch. It accepts exactly the batches that can be encoded in this
// context.
func (p *itemContext) check(b Batch) error {
	delta := b.LastOffset - b.BaseOffset
	switch {
	case b.Position != p.position || b.FirstOrdinal != p.ordinal:
		return fmt.Errorf("batch at position %d, ordinal %d; want position %d, ordinal %d", b.Position,
			b.FirstOrdinal, p.position, p.ordinal)
	case b.BaseOffset < p.next || b.LastOffset < b.BaseOffset || delta > math.MaxInt32:
		return fmt.Errorf("batch of offsets %d to %d; want offsets from %d", b.BaseOffset,
			b.LastOffset, p.next)
	case b.SizeBytes < batchBytesMin || p.position+int64(b.SizeBytes) > math.MaxInt32:
		return fmt.Errorf("batch of %d bytes at position %d", b.SizeBytes, b.Position)
	case b.Records < 0 || b.Records > int(delta)+1 || b.Opaque && b.Records > 0 || b.BodyBytes < 0:
		return fmt.Errorf("batch of %d records in %d offsets", b.Records, delta+1)
	case b.Records >= RecordsMax-int(p.ordinal):
		return fmt.Errorf("%w: batch at position %d", ErrTooManyRecords, b.Position)
	}
	return nil
}

// appendItem encodes a batch that check has accepted.
func (p *itemContext) appendItem(item []byte, b Batch) []byte {
	gap, delta := b.BaseOffset-p.next, b.LastOffset-b.BaseOffset
	attributes, shape := p.shape(b)
	item = append(item, attributes, shape)
	item = binary.BigEndian.AppendUint32(item, b.CRC)
	item = binary.AppendUvarint(item, uint64(b.SizeBytes))
	if shape&gapBit != 0 {
		item = binary.AppendUvarint(item, uint64(gap))
	}
	item = binary.AppendUvarint(item, uint64(delta))
	if shape&countBit != 0 {
		item = binary.AppendUvarint(item, uint64(b.Records))
	}
	if shape&producerBit != 0 {
		item = binary.AppendVarint(item, b.ProducerID)
		item = binary.AppendVarint(item, int64(b.ProducerEpoch))
	}
	if shape&leaderEpochBit != 0 {
		item = binary.AppendVarint(item, int64(b.LeaderEpoch))
	}
	item = binary.AppendVarint(item, b.MaxTimestamp-p.maxTimestamp)
	if attributes&horizonBit != 0 {
		item = binary.AppendVarint(item, b.HorizonMs)
	}
	return binary.AppendUvarint(item, uint64(b.BodyBytes))
}

// shape returns the attributes and the shape of a batch's item.
func (p *itemContext) shape(b Batch) (attributes, shape byte) {
	set := func(flags *byte, bit byte, on bool) {
		if on {
			*flags |= bit
		}
	}
	attributes = byte(b.Codec) & codecMask
	set(&attributes, logAppendTimeBit, b.TimestampType == record.LogAppendTime)
	set(&attributes, transactionalBit, b.Transactional)
	set(&attributes, controlBit, b.Marker != NoMarker)
	set(&attributes, horizonBit, b.HorizonMs != 0)
	set(&attributes, opaqueBit, b.Opaque)
	set(&shape, producerBit, b.ProducerID != p.producerID || b.ProducerEpoch != p.producerEpoch)
	set(&shape, leaderEpochBit, b.LeaderEpoch != p.leaderEpoch)
	set(&shape, countBit, int64(b.Records) != b.LastOffset-b.BaseOffset+1)
	set(&shape, gapBit, b.BaseOffset != p.next)
	return attributes, shape | byte(b.Marker)<<markerShift
}

// readItem decodes the next item in a section. The error wraps ErrCorrupt if appendItem cannot have
// encoded the item.
func (p *itemContext) readItem(r *pageReader) (Batch, error) {
	var fixed [6]byte
	if err := r.take(fixed[:]); err != nil {
		return Batch{}, err
	}
	attributes, shape := fixed[0], fixed[1]
	b := Batch{
		Position: p.position, FirstOrdinal: p.ordinal, CRC: binary.BigEndian.Uint32(fixed[2:]),
		Codec:         compress.Codec(attributes & codecMask),
		TimestampType: record.TimestampType(attributes & logAppendTimeBit >> 3),
		Transactional: attributes&transactionalBit != 0,
		Marker:        Marker(shape >> markerShift & 0b11), Opaque: attributes&opaqueBit != 0,
		ProducerID: p.producerID, ProducerEpoch: p.producerEpoch, LeaderEpoch: p.leaderEpoch,
	}
	if shape&^byte(shapeMask) != 0 || (attributes&controlBit != 0) != (b.Marker != NoMarker) {
		return Batch{}, fmt.Errorf("%w: batch with attributes %#02x, shape %#02x", ErrCorrupt,
			attributes, shape)
	}
	fields := itemFields{pageReader: r}
	b.SizeBytes = int(fields.uvarint(math.MaxInt32))
	b.BaseOffset = p.next + int64(fields.uvarintIf(shape&gapBit != 0, math.MaxInt64))
	b.LastOffset = b.BaseOffset + int64(fields.uvarint(math.MaxInt32+1))
	b.Records = int(b.LastOffset - b.BaseOffset + 1)
	if shape&countBit != 0 {
		b.Records = int(fields.uvarint(RecordsMax))
	}
	if shape&producerBit != 0 {
		b.ProducerID, b.ProducerEpoch = fields.varint(), int16(fields.varintWithin(math.MaxInt16))
	}
	if shape&leaderEpochBit != 0 {
		b.LeaderEpoch = int32(fields.varintWithin(math.MaxInt32))
	}
	b.MaxTimestamp = p.maxTimestamp + fields.varint()
	if attributes&horizonBit != 0 {
		b.HorizonMs = fields.varint()
	}
	b.BodyBytes = int64(fields.uvarint(math.MaxInt64))
	if fields.err != nil {
		return Batch{}, fields.err
	}
	if err := p.check(b); err != nil {
		return Batch{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return b, nil
}

// itemFields reads the numbers in an item. After the first error its methods return 0, so the
// caller checks err only once.
type itemFields struct {
	*pageReader
	err error
}

func (f *itemFields) uvarint(limit uint64) (value uint64) {
	if f.err == nil {
		value, f.err = f.pageReader.uvarint(limit)
	}
	return value
}

func (f *itemFields) uvarintIf(present bool, limit uint64) uint64 {
	if !present {
		return 0
	}
	return f.uvarint(limit)
}

func (f *itemFields) varint() (value int64) {
	if f.err == nil {
		value, f.err = f.pageReader.varint()
	}
	return value
}

// varintWithin reads a number from -limit-1 to limit.
func (f *itemFields) varintWithin(limit int64) int64 {
	value := f.varint()
	if f.err == nil && (value > limit || value < -limit-1) {
		f.err = fmt.Errorf("%w: number %d, want at most %d", ErrCorrupt, value, limit)
	}
	return value
}

// The encoding of a Record is a number: its size in the upper bits, and these flags in the lower
// two bits.
const (
	nullKeyFlag   = 1 << 0
	tombstoneFlag = 1 << 1
	sizeShift     = 2
	bodyBytesMax  = math.MaxInt32
)

// appendRecord appends the encoding of a record.
func appendRecord(item []byte, r Record) []byte {
	value := uint64(r.BodyBytes) << sizeShift
	if r.Tombstone {
		value |= tombstoneFlag
	}
	if r.NullKey {
		value |= nullKeyFlag
	}
	return binary.AppendUvarint(item, value)
}

// readRecord decodes a record.
func readRecord(r *pageReader) (Record, error) {
	value, err := r.uvarint((bodyBytesMax + 1) << sizeShift)
	if err == nil && value&(nullKeyFlag|tombstoneFlag) == nullKeyFlag|tombstoneFlag {
		err = fmt.Errorf("%w: a tombstone without a key", ErrCorrupt)
	}
	return Record{
		BodyBytes: int(value >> sizeShift), Tombstone: value&tombstoneFlag != 0,
		NullKey: value&nullKeyFlag != 0,
	}, err
}
