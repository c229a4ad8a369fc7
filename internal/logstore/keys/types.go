package keys

import (
	"errors"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Extension is the file name extension of a sidecar. SpoolExtension is the file name extension of a
// spool. No later process can use a spool, so a spool has the suffix of temporary files, which the
// next start of the broker deletes.
const (
	Extension      = segment.KeysExtension
	SpoolExtension = Extension + ".spool" + vfs.TemporarySuffix
)

// RecordsMax limits the number of records of a segment with a sidecar, because an ordinal has 30
// bits. A segment with RecordsMax records or more, which only another program can write, has no
// sidecar (ErrTooManyRecords), and its keys are unknown.
const RecordsMax = 1 << 30

// Errors of reading and building sidecars. After ErrCorrupt or ErrStale the caller rebuilds the
// sidecar.
var (
	// ErrCorrupt means that a checksum, a length or the order of entries is wrong.
	ErrCorrupt = errors.New("corrupt key sidecar")
	// ErrStale means that the sidecar belongs to another generation of the data file or to another
	// salt, or has another version.
	ErrStale = errors.New("key sidecar of other data")
	// ErrMismatch means that a spool, or the sources of a Derivation, do not match the segment's
	// data.
	ErrMismatch = errors.New("key spool does not match its segment")
	// ErrTooManyRecords means that a segment has RecordsMax records or more.
	ErrTooManyRecords = errors.New("more records than a key sidecar can contain")
)

// Entry represents one record with a key.
type Entry struct {
	Hash      Hash
	Ordinal   uint32 // ordinal of the record in its segment, below RecordsMax
	Tombstone bool
}

// Record is a sidecar's description of one record.
type Record struct {
	// BodyBytes is the record's encoded size without the length that precedes the record. If the
	// leader or the cleaner has rebuilt the batch, BodyBytes is the size before the rebuild, which
	// may differ by a few bytes.
	BodyBytes int
	Tombstone bool
	// NullKey is set if the record has no entry. It is also set for control records, although they
	// have a key.
	NullKey bool
}

// KeyedRecord is a record with its key's hash. The hash is undefined if NullKey is set.
type KeyedRecord struct {
	Record
	Hash Hash
}

// Marker is the kind of a control batch.
type Marker int8

// The kinds of control batches. A control batch without records, or with a record of an unknown
// type, is MarkerOther.
const (
	NoMarker Marker = iota // not a control batch
	MarkerAbort
	MarkerCommit
	MarkerOther
)

// Batch is a sidecar's description of one batch. With it, the cleaner can decide what to do with
// the batch without reading the batch.
type Batch struct {
	Position   int64 // position in the data file
	SizeBytes  int   // size including the batch header
	BaseOffset int64
	LastOffset int64
	// Records is the number of records. Their ordinals begin with FirstOrdinal. It is 0 if the
	// cleaner has removed all records of the batch, or if the batch is opaque.
	Records      int
	FirstOrdinal uint32
	// Opaque is set if the batch decompresses to more than ScanOptions.BatchBytesMax. The keys of
	// such a batch are unknown.
	Opaque bool
	CRC    uint32

	ProducerID    int64 // -1 if the batch has no producer id
	ProducerEpoch int16
	Transactional bool
	Marker        Marker
	TimestampType record.TimestampType
	Codec         compress.Codec
	HorizonMs     int64 // delete horizon in the batch; 0 if there is none
	MaxTimestamp  int64 // ms
	LeaderEpoch   int32
	BodyBytes     int64 // sum of the records' BodyBytes; 0 if the batch is opaque
}

// Identity identifies one generation of a data file.
type Identity struct {
	Base     int64 // base offset of the segment
	LogBytes int64
	// Digest is a salted hash of the base offset, size and checksum of every batch. Any change of
	// the data file therefore changes it. It is 0 if it is unknown, for example after a restart.
	// Then Reader.Verify must compare the sidecar with the data file.
	Digest uint64
}

// Counts are the totals of a segment in its sidecar's header.
type Counts struct {
	Batches    int
	Opaque     int // number of opaque batches, which Batches includes
	Records    int
	Tombstones int // number of tombstones, which Records includes
	// NullKeys is the number of records without an entry, including control records.
	NullKeys  int
	BodyBytes int64
}

// Entries returns the number of entries of the sidecar.
func (c Counts) Entries() int { return c.Records - c.NullKeys }
