package keys

import (
	"errors"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Extension is the extension of a sidecar, SpoolExtension that of a spool. A spool belongs to the
// active segment and is of no use once the process that wrote it has exited, so it has the suffix
// of temporary files, which a start deletes.
const (
	Extension      = segment.KeysExtension
	SpoolExtension = Extension + ".spool" + vfs.TemporarySuffix
)

// RecordsMax is the largest number of records of a segment with a sidecar: an ordinal has 30 bits.
// A larger segment, which only another program can write, has none (ErrTooManyRecords), and its
// keys are treated as unknown.
const RecordsMax = 1 << 30

// Errors of reading and building sidecars. After ErrCorrupt and ErrStale the sidecar is rebuilt.
var (
	// ErrCorrupt means that a checksum, a length or an order is wrong.
	ErrCorrupt = errors.New("corrupt key sidecar")
	// ErrStale means that the sidecar is of another generation of the data, another salt or another
	// version.
	ErrStale = errors.New("key sidecar of other data")
	// ErrMismatch is returned by Build if counts or identity are not those of the data.
	ErrMismatch = errors.New("key spool does not match its segment")
	// ErrTooManyRecords means that a segment has more than RecordsMax records.
	ErrTooManyRecords = errors.New("more records than a key sidecar takes")
)

// Entry represents one record with a key.
type Entry struct {
	Hash      Hash
	Ordinal   uint32 // of the record in its segment, below RecordsMax
	Tombstone bool
}

// Record is a sidecar's description of one record.
type Record struct {
	// BodyBytes is the record's encoded size without the length that precedes it. In a batch that
	// the leader or the cleaner rebuilt it is the size before, which may differ by a few bytes.
	BodyBytes int
	Tombstone bool
	NullKey   bool // the record has no entry; set for control records too
}

// KeyedRecord is a record with the hash of its key, which is undefined if NullKey.
type KeyedRecord struct {
	Record
	Hash Hash
}

// Marker is the kind of a control batch.
type Marker int8

// The kinds of control batches. One that was emptied by cleaning, or has an unknown type, is
// MarkerOther.
const (
	NoMarker Marker = iota // not a control batch
	MarkerAbort
	MarkerCommit
	MarkerOther
)

// Batch is a sidecar's description of one batch, which is enough for a cleaner to decide on it
// without reading it. Batches are in the order of the log.
type Batch struct {
	Position   int64 // in the data file
	SizeBytes  int   // with the header
	BaseOffset int64
	LastOffset int64
	// Records is the number of the batch's ordinals, and FirstOrdinal the first of them. A batch
	// without records was emptied by cleaning, or it is opaque.
	Records      int
	FirstOrdinal uint32
	// Opaque is set if the batch decompresses to more than ScanOptions.BatchBytesMax: its keys are
	// unknown.
	Opaque bool
	CRC    uint32

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

// Identity identifies one generation of a data file.
type Identity struct {
	Base     int64 // base offset of the segment
	LogBytes int64
	// Digest is a keyed hash over base offset, size and checksum of each batch, in order, so every
	// change of the file changes it. 0: unknown, as after a restart; Reader.Verify then compares
	// the sidecar with the file itself.
	Digest uint64
}

// Counts are the totals of a segment in a sidecar's header.
type Counts struct {
	Batches    int
	Opaque     int // of Batches
	Records    int
	Tombstones int // of Records
	// NullKeys is the number of records without an entry, including control records.
	NullKeys  int
	BodyBytes int64
}

// Entries returns the number of entries of the sidecar.
func (c Counts) Entries() int { return c.Records - c.NullKeys }
