package keys

import (
	"errors"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Extension is the file name extension of a sidecar, and SpoolExtension that of a spool. No later
// process can use a spool, so it has the suffix of temporary files, which the next start of the
// broker deletes.
const (
	Extension      = segment.KeysExtension
	SpoolExtension = Extension + ".spool" + vfs.TemporarySuffix
)

// RecordsMax limits the records of a segment with a sidecar, because an ordinal has 30 bits. A
// segment with RecordsMax records or more, which only another program can write, has no sidecar
// (ErrTooManyRecords), and its keys are unknown.
const RecordsMax = 1 << 30

// Errors of reading and building sidecars. After ErrCorrupt or ErrStale the caller rebuilds the
// sidecar.
var (
	// ErrCorrupt means that a checksum, a length or the order of entries is wrong.
	ErrCorrupt = errors.New("corrupt key sidecar")
	// ErrStale means that the sidecar belongs to another generation of the data file or to another
	// salt, or has another version.
	ErrStale = errors.New("key sidecar of other data")
	// ErrMismatch means that a spool, or the sources of a Derivation, do not match the data of the
	// segment.
	ErrMismatch = errors.New("key spool does not match its segment")
	// ErrTooManyRecords means that a segment has RecordsMax records or more.
	ErrTooManyRecords = errors.New("more records than a key sidecar can contain")
)

// Entry represents one record with a key.
type Entry struct {
	Hash      Hash
	Ordinal   uint32 // of the record in its segment, below RecordsMax
	Tombstone bool
}

// Record is a sidecar's description of one record.
type Record struct {
	// BodyBytes is the encoded size of the record without the length that precedes it. If the
	// leader or the cleaner has rebuilt the batch, it is the size before the rebuild, which may
	// differ by a few bytes.
	BodyBytes int
	Tombstone bool
	// the record has no entry; also set for control records, although they have a key
	NullKey bool
}

// KeyedRecord is a record with the hash of its key. The hash is undefined if NullKey is set.
type KeyedRecord struct {
	Record
	Hash Hash
}

// Marker is the kind of a control batch.
type Marker int8

// The kinds of control batches. A control batch without records, or with a record of unknown type,
// is MarkerOther.
const (
	NoMarker Marker = iota // not a control batch
	MarkerAbort
	MarkerCommit
	MarkerOther
)

// Batch is a sidecar's description of one batch. It suffices for the cleaner to decide what to do
// with the batch without reading it.
type Batch struct {
	Position   int64 // in the data file
	SizeBytes  int   // including the header of the batch
	BaseOffset int64
	LastOffset int64
	// Records is the number of records, whose ordinals begin with FirstOrdinal. It is 0 if the
	// cleaner has removed all records of the batch, or if the batch is opaque.
	Records      int
	FirstOrdinal uint32
	// Opaque is set if the batch decompresses to more than ScanOptions.BatchBytesMax: its keys are
	// unknown.
	Opaque bool
	CRC    uint32

	ProducerID    int64 // -1: the batch has no producer id
	ProducerEpoch int16
	Transactional bool
	Marker        Marker
	TimestampType record.TimestampType
	Codec         compress.Codec
	HorizonMs     int64 // the delete horizon in the batch; 0: the batch has no horizon
	MaxTimestamp  int64 // ms
	LeaderEpoch   int32
	BodyBytes     int64 // sum of BodyBytes of the records; 0 if the batch is opaque
}

// Identity identifies one generation of a data file.
type Identity struct {
	Base     int64 // base offset of the segment
	LogBytes int64
	// Digest is a salted hash of the base offset, size and checksum of every batch, so any change
	// of the file changes it. It is 0 if it is unknown, as after a restart; then Reader.Verify must
	// compare the sidecar with the file.
	Digest uint64
}

// Counts are the totals of a segment in the header of its sidecar.
type Counts struct {
	Batches    int
	Opaque     int // number of opaque batches, included in Batches
	Records    int
	Tombstones int // included in Records
	// NullKeys is the number of records without an entry, including control records.
	NullKeys  int
	BodyBytes int64
}

// Entries returns the number of entries of the sidecar.
func (c Counts) Entries() int { return c.Records - c.NullKeys }
