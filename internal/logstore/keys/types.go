package keys

import (
	"errors"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Extension is that of a sidecar's file, beside .log; SpoolExtension that of a spool, which belongs
// to the active segment and is worth nothing once the process that wrote it is gone: so it ends
// like any temporary file, which a start removes.
const (
	Extension      = segment.KeysExtension
	SpoolExtension = Extension + ".spool" + vfs.TemporarySuffix
)

// RecordsMax is how many records a segment may have and get a sidecar: an ordinal has 30 bits. One
// with more, which only a foreign file can be, has none (ErrTooManyRecords), and is treated as a
// segment whose keys are not known.
const RecordsMax = 1 << 30

// Why a sidecar cannot be used, or made. After the first two it has to be made anew.
var (
	// a checksum, a length or an order is wrong
	ErrCorrupt = errors.New("corrupt key sidecar")
	// another generation of the data, another salt or version
	ErrStale = errors.New("key sidecar of other data")
	// Build: counts or identity are not the data's
	ErrMismatch       = errors.New("key spool does not match its segment")
	ErrTooManyRecords = errors.New("more records than a key sidecar takes") // RecordsMax
)

// Entry stands for one record with a key.
type Entry struct {
	Hash      Hash
	Ordinal   uint32 // of the record in its segment, below RecordsMax
	Tombstone bool
}

// Record is what a sidecar has of a record, by ordinal.
type Record struct {
	// BodyBytes is the record's encoded size without the length in front of it; of a batch that the
	// leader or the cleaner rebuilt, from before, which may differ by a few bytes.
	BodyBytes int
	Tombstone bool
	NullKey   bool // and so no entry; true of control records too
}

// KeyedRecord is what a spool takes of a record. Hash means nothing if NullKey.
type KeyedRecord struct {
	Record
	Hash Hash
}

// Marker is what a control batch says.
type Marker int8

// The kinds of markers. A control batch that was emptied by cleaning, or of a type that nobody
// knows, is MarkerOther.
const (
	NoMarker Marker = iota // not a control batch
	MarkerAbort
	MarkerCommit
	MarkerOther
)

// Batch is what a sidecar has of a batch: enough to decide on it without reading it. Batches stand
// in the order of the log.
type Batch struct {
	Position   int64 // in the data file
	SizeBytes  int   // with the header
	BaseOffset int64
	LastOffset int64
	// Records is how many ordinals the batch has, and FirstOrdinal the first of them. Without
	// records it was emptied by cleaning, or it is opaque.
	Records      int
	FirstOrdinal uint32
	Opaque       bool // it decompresses to more than a scan may hold: its keys are not known
	CRC          uint32

	ProducerID    int64 // -1: none
	ProducerEpoch int16
	Transactional bool
	Marker        Marker
	TimestampType record.TimestampType
	Codec         compress.Codec
	HorizonMs     int64 // the delete horizon; 0 if none is stamped
	MaxTimestamp  int64 // ms
	LeaderEpoch   int32
	BodyBytes     int64 // sum of its records' BodyBytes; 0 if opaque
}

// Identity tells one generation of a data file from every other one.
type Identity struct {
	Base     int64 // base offset of the segment
	LogBytes int64
	// Digest is a keyed hash over base offset, size and checksum of each batch, in order; so it
	// changes with whatever changes in the file. 0: not known, as after a restart; then
	// Reader.Verify holds the sidecar against the file itself.
	Digest uint64
}

// Counts is what a sidecar's header has of the whole segment.
type Counts struct {
	Batches    int
	Opaque     int // of Batches
	Records    int
	Tombstones int // of Records
	// of Records, those of control batches too: Records - NullKeys is the number of entries
	NullKeys  int
	BodyBytes int64
}

// Entries is how many entries the sidecar has.
func (c Counts) Entries() int { return c.Records - c.NullKeys }
