package record

import (
	"errors"

	"heartwood.dev/heartwood/internal/compress"
)

// HeaderBytes is the size of a batch's header; the records begin there.
const HeaderBytes = 61

// TimestampType says whose clock stamped a batch's records.
type TimestampType int8

// The timestamp types, with Kafka's numbers (batch attributes, bit 3).
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// ErrCorrupt is wrapped by every error about bytes that are no record batch, or whose checksum does not match.
var ErrCorrupt = errors.New("corrupt record batch")

// Batch is a view over the bytes of exactly one record batch v2 (magic 2); it never copies.
// Make one with Next; its length is 12 + batchLength >= HeaderBytes.
type Batch []byte

// Next splits the first batch off buf. It checks length and magic, not the checksum.
// It returns io.ErrUnexpectedEOF if buf holds less than the whole batch, and an error wrapping ErrCorrupt for nonsense.
func Next(buf []byte) (first Batch, rest []byte, err error) { panic("unwritten") }

// PeekSize returns the size in bytes of the batch that begins with header (at least 17 bytes), as Next checks it.
func PeekSize(header []byte) (int, error) { panic("unwritten") }

func (b Batch) BaseOffset() int64            { panic("unwritten") }
func (b Batch) LastOffset() int64            { panic("unwritten") }
func (b Batch) NextOffset() int64            { panic("unwritten") }
func (b Batch) LeaderEpoch() int32           { panic("unwritten") }
func (b Batch) CRC() uint32                  { panic("unwritten") }
func (b Batch) Codec() compress.Codec        { panic("unwritten") }
func (b Batch) TimestampType() TimestampType { panic("unwritten") }
func (b Batch) Transactional() bool          { panic("unwritten") }
func (b Batch) Control() bool                { panic("unwritten") }

// DeleteHorizon returns the time (ms) from which the batch's tombstones may go; ok is false if none is stamped.
func (b Batch) DeleteHorizon() (ms int64, ok bool) { panic("unwritten") }
func (b Batch) LastOffsetDelta() int32             { panic("unwritten") }
func (b Batch) BaseTimestamp() int64               { panic("unwritten") }
func (b Batch) MaxTimestamp() int64                { panic("unwritten") }
func (b Batch) ProducerID() int64                  { panic("unwritten") }
func (b Batch) ProducerEpoch() int16               { panic("unwritten") }
func (b Batch) BaseSequence() int32                { panic("unwritten") }
func (b Batch) LastSequence() int32                { panic("unwritten") }
func (b Batch) Count() int32                       { panic("unwritten") }

// CheckCRC returns an error wrapping ErrCorrupt if the checksum does not match.
func (b Batch) CheckCRC() error { panic("unwritten") }

// SetBaseOffset and SetLeaderEpoch write in place; both lie outside the checksum.
func (b Batch) SetBaseOffset(offset int64) { panic("unwritten") }
func (b Batch) SetLeaderEpoch(epoch int32) { panic("unwritten") }

// Header is one header of a record. Value is nil when null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch; its slices point into the batch or into the iterator's buffer.
type Record struct {
	Offset    int64
	Timestamp int64  // ms
	Key       []byte // nil when null
	Value     []byte // nil when null: a tombstone, if the record has a key
	Headers   []Header
}

// Records calls visit for each record of the batch, decompressing at most limit bytes. The record and its slices are valid
// during the call only. It fails with an error wrapping ErrCorrupt on anything the format forbids, and stops at visit's error.
func (b Batch) Records(limit int, visit func(*Record) error) error { panic("unwritten") }

// Identity is what a rebuilt batch keeps of the batch it came from.
type Identity struct {
	BaseOffset      int64
	LastOffsetDelta int32
	LeaderEpoch     int32
	TimestampType   TimestampType
	MaxTimestamp    int64 // used only for LogAppendTime and for an empty batch
	Transactional   bool
	Control         bool
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	DeleteHorizonMs int64 // 0: none
}

// IdentityOf returns a batch's identity.
func IdentityOf(b Batch) Identity { panic("unwritten") }

// Builder makes one batch. The zero value is not usable; see NewBuilder. Reset reuses its buffers.
type Builder struct{}

// NewBuilder returns a builder that compresses with codec at level (or compress.LevelDefault).
func NewBuilder(codec compress.Codec, level int) *Builder { panic("unwritten") }

// Reset begins a new batch.
func (b *Builder) Reset(id Identity) { panic("unwritten") }

// Add appends a record; offsets ascend and lie in [BaseOffset, BaseOffset+LastOffsetDelta].
func (b *Builder) Add(r *Record) { panic("unwritten") }

// Count returns how many records were added.
func (b *Builder) Count() int { panic("unwritten") }

// Build appends the finished batch, checksum included, to dst. Without records it makes the empty batch of reference 1.2.
func (b *Builder) Build(dst []byte) ([]byte, error) { panic("unwritten") }
