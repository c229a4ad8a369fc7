package logstore

import (
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// What a Log's methods fail with, besides the errors of record.Validate.
var (
	ErrOffsetOutOfRange     = errors.New("offset out of range")
	ErrBatchTooLarge        = errors.New("batch larger than a segment")
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	ErrOutOfOrderSequence   = errors.New("out of order sequence number")
	ErrInvalidTxnState      = errors.New("invalid transaction state")
	ErrFencedLeaderEpoch    = errors.New("fenced leader epoch")
	ErrStorage              = errors.New("storage error") // the disk failed; wrapped with what failed
	ErrClosed               = errors.New("log is closed")
)

// Log is one partition's log: an ordered list of segments, the last of which is active. One append at a time; reads run beside
// it and beside roll, retention and cleaning, on an immutable snapshot of the segment list.
//
// Invariant: LogStart <= HighWatermark <= LogEnd, and LastStable <= HighWatermark.
type Log struct{}

func (l *Log) ID() PartitionID { panic("unwritten") }

// Configure puts new settings into effect.
func (l *Log) Configure(s topicconfig.Settings, retain bool) { panic("unwritten") }
func (l *Log) Settings() topicconfig.Settings                { panic("unwritten") }

// Lead begins a leader epoch: appends stamp it. It fails with ErrFencedLeaderEpoch when an earlier one is asked for.
func (l *Log) Lead(epoch int32) error { panic("unwritten") }

// Appended tells where a batch went.
type Appended struct {
	BaseOffset    int64
	LastOffset    int64
	LogAppendTime int64 // ms; -1 unless the topic stamps LogAppendTime
	LogStart      int64
	Duplicate     bool // the batch was there already, at these offsets; nothing was appended
}

// Append validates one produced batch (record.Validate), checks its producer's sequence, assigns offsets and appends it.
// It may write into batch. After a failure nothing was appended.
func (l *Log) Append(batch []byte, now time.Time) (Appended, error) { panic("unwritten") }

func (l *Log) LogStart() int64      { panic("unwritten") }
func (l *Log) LogEnd() int64        { panic("unwritten") }
func (l *Log) HighWatermark() int64 { panic("unwritten") }
func (l *Log) LastStable() int64    { panic("unwritten") }

// AdvanceHighWatermark moves the high watermark up to offset (at most LogEnd) and tells whether it moved.
func (l *Log) AdvanceHighWatermark(offset int64) bool { panic("unwritten") }

// Slice is a range of whole batches in one data file. It keeps the segment's files alive until Release.
type Slice struct {
	File      vfs.File // nil if Length is 0
	Position  int64
	Length    int
	LogStart  int64
	HighWater int64
	Stable    int64
}

// Release must be called once for each Slice that Read returned without an error.
func (s *Slice) Release() { panic("unwritten") }

// Read returns whole batches from the one that holds offset on (reference I43, I44), below the offset limit, at most bytesMax
// bytes of them, but the first batch always when wholeFirst is set. It fails with ErrOffsetOutOfRange outside
// [LogStart, limit]. At limit itself it returns an empty slice.
func (l *Log) Read(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	panic("unwritten")
}

// TimestampOffset is an offset and the timestamp (ms) of its record.
type TimestampOffset struct {
	Timestamp   int64
	Offset      int64
	LeaderEpoch int32
}

// OffsetForTimestamp returns the first record, below limit, whose timestamp is >= ms; ok is false if there is none.
func (l *Log) OffsetForTimestamp(ms, limit int64) (at TimestampOffset, ok bool, err error) {
	panic("unwritten")
}

// MaxTimestamp returns the record with the largest timestamp; ok is false if the log is empty.
func (l *Log) MaxTimestamp() (at TimestampOffset, ok bool, err error) { panic("unwritten") }

// EpochAt returns the leader epoch of an offset, -1 if unknown.
func (l *Log) EpochAt(offset int64) int32 { panic("unwritten") }

// Stats is a log's state, for metrics and reports.
type Stats struct {
	SizeBytes     int64
	Segments      int
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
	LastStable    int64
}

func (l *Log) Stats() Stats { panic("unwritten") }

// cleanView is what the cleaner needs to know of a log at one moment; release it.
//
// Invariant: every segment of Segments ends at or below Bound; FirstDirty <= Bound.
type cleanView struct {
	Segments    []*segment.Segment // [log start, Bound), ascending, never the active one
	FirstDirty  int64
	Bound       int64            // rounded down to a segment's base (reference I2)
	CleanBytes  int64            // below FirstDirty
	DirtyBytes  int64            // [FirstDirty, Bound)
	Blocked     map[string]int64 // bytes above Bound by reason: active_segment, min_lag, open_transaction, unreplicated
	OldestDirty time.Time        // when the oldest dirty segment that could be cleaned was first written; zero if none
	Producers   map[int64]int64  // active producer id -> last data offset: these batches stay, empty if need be (I25)
	Release     func()
}

// cleanView takes a view of the log for the cleaner.
func (l *Log) cleanView(now time.Time) cleanView { panic("unwritten") }

// replaceSegments puts cleaned segments (suffix .cleaned, sealed) in the place of sources, as one commit point that survives a
// crash (docs/format/swap.md). Sources must be neighbours of the current list; if they are not any more (retention took one),
// it fails with errSegmentsChanged and changes nothing. Readers of the old files go on.
func (l *Log) replaceSegments(sources, cleaned []*segment.Segment) error { panic("unwritten") }

// setFirstDirty records how far the log is clean; it goes to cleaner-offset-checkpoint.
func (l *Log) setFirstDirty(offset int64) error { panic("unwritten") }
