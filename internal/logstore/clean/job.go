package clean

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// Job describes one pass over one log.
//
// Invariant: every segment ends at or below Bound, the base offset of the segment after the last
// source. All transactions below Bound are decided: Bound is at most the last stable offset.
type Job struct {
	Sources    []Source // [log start, Bound), ascending, all sealed
	LogStart   int64    // records below it were deleted by DeleteRecords
	FirstDirty int64    // Stats.CleanedTo if the pass fails
	Bound      int64    // the cleanable bound: the pass changes nothing at or above it (I2)
	// AbortedAcrossBound lists the aborted transactions that begin below Bound and whose marker is
	// at or above Bound. The pass does not read these markers. Every other transaction that is open
	// at Bound is committed.
	AbortedAcrossBound []segment.AbortedTxn
	// Lineage returns the leader epoch of the offset before the given one. A .dead file from before
	// a truncation has a different one and is ignored (docs/format/dead.md).
	Lineage func(below int64) uint64

	Now    time.Time // the start of the pass, which tombstone retention is measured against
	Rules  Rules
	Limits Limits
	// CleaningProgress is the replicated cleaning progress (X1): a tombstone or marker is removed
	// only below this progress, and one retention after the progress reached its offset. The zero
	// value permits no removal. SingleReplica is for a log without other replicas.
	CleaningProgress CleaningProgress
	// Producers are the active producers by id. Their state must be recoverable from the log after
	// a crash.
	Producers map[int64]Producer
	Hasher    keys.Hasher // with the salt of the partition

	Env Env
}

// Source is one segment of a Job.
type Source struct {
	Segment *segment.Segment
	// DeadFile is the content of the segment's .dead file, nil if it has none. The pass ignores it
	// unless it is bound to these bytes and was computed in the log's lineage (see Job.Lineage).
	DeadFile []byte
	// NoAbortedTxns lets EstimateGarbage skip the batch entries: the segment contains no marker of
	// an aborted transaction. Run ignores it and reads them.
	NoAbortedTxns bool
}

// Producer is the state of an active producer, which determines the batch of it that must remain
// (I25).
type Producer struct {
	// LastOffset is the last offset of the producer's last data batch; -1 if the producer has only
	// a marker: then control batches of its epoch remain.
	LastOffset int64
	Epoch      int16
}

// Codec is the compression of rebuilt batches.
type Codec struct {
	Type  compress.Codec
	Level int // compress.LevelDefault: the default level of the codec
}

// Rules are the cleaning settings of the topic.
type Rules struct {
	TombstoneRetention time.Duration // from the time a tombstone or marker became removable (X3)
	// MaxLag is the longest time that a superseded record may remain; 0 or less: unlimited.
	MaxLag time.Duration
	// MaxGarbagePercent is the share of the cleaned section that a pass may leave as garbage to
	// save I/O. 0: none.
	MaxGarbagePercent int
	KeepCodec         bool  // rebuilt batches keep their own codec
	Codec             Codec // of rebuilt batches without KeepCodec; copied batches keep theirs
	// DenseCodec, if set, compresses every batch that a pass writes, including batches that lose
	// nothing: the clean section is written once and read for a long time. Segments that are not
	// rewritten keep their codecs.
	DenseCodec   *Codec
	SegmentBytes int64 // output rolls before it exceeds this; default 1 GiB
	// TimestampSpanMax is the largest difference of timestamps in an output segment that is merged
	// from several; 0: unlimited. A topic that is both compacted and deleted by time needs it:
	// retention deletes a segment when its newest record has expired, which never happens to a
	// segment that every pass merges with a younger one.
	TimestampSpanMax time.Duration
}

// Limits bound the resources of a pass.
type Limits struct {
	MemoryBytes int64 // of tables and bitmaps; default 128 MiB
	// BatchBytesMax is the largest decompressed size of a batch that is decoded, in bytes; default
	// 128 MiB. Larger batches are opaque: they are kept without being read. A sidecar that was
	// built with another limit has other opaque batches, which does no harm.
	BatchBytesMax int
	// Workers is the number of hash slices that are resolved at once; default 1. They share the
	// memory equally.
	Workers int
	// Parallel calls do(0) to do(n-1), on any number of goroutines, and returns when all calls have
	// returned. Nil: one after the other.
	Parallel func(n int, do func(i int))
}

// Env connects a pass to the log. The functions of Env are called on the goroutine of Run, except
// for Throttle and Report, which the goroutines of Limits.Parallel call too.
type Env struct {
	// OpenSidecar opens the sidecar of a segment, or builds it, which may take as long as reading
	// the segment. It returns nil for a segment that can have none (keys.ErrTooManyRecords), whose
	// keys are unknown. The pass closes the reader.
	OpenSidecar func(ctx context.Context, s *segment.Segment,
		opts SidecarOptions) (*keys.Reader, error)
	// Create creates an output segment (suffix .cleaned). base is the base offset of the first
	// source or, after a roll, of the first batch that goes there. Run removes the segment if it
	// fails before Replace.
	Create func(base int64) (*segment.Segment, error)
	// DeriveSidecar starts the sidecar of an output segment. The pass finishes it under the name
	// that SidecarName returns, before Replace, and closes it in any case. Nil: no sidecar is
	// derived, and the next pass builds it from the data.
	DeriveSidecar func(base int64) (*keys.Derivation, error)
	SidecarName   func(base int64) string
	// Replace replaces sources by the sealed segments cleaned, at one commit point. From the call
	// on Replace owns the cleaned segments, even if it fails.
	Replace func(sources, cleaned []*segment.Segment) error
	// Producers returns the current state for Job.Producers; it is compared before each commit
	// (F12). Nil: the state does not change.
	Producers func() map[int64]Producer
	// SaveDead writes the .dead file of a segment, or removes it if content is nil. The file need
	// not survive a crash: without it the retention of removable tombstones starts again.
	SaveDead func(s *segment.Segment, content []byte) error
	// FreeBytes returns the free space of the disk; nil: unlimited.
	FreeBytes func() (uint64, error)
	// Throttle is called after each n bytes of I/O and blocks while the pass exceeds its rate. May
	// be nil.
	Throttle func(ctx context.Context, n int) error
	// Compress is used instead of compress.To, for example to measure compression; nil:
	// compress.To.
	Compress compress.Func
	// Report receives the progress of the pass from time to time. May be nil.
	Report func(PassProgress)
}

// SidecarOptions control Env.OpenSidecar.
type SidecarOptions struct {
	Rebuild bool // build the sidecar even if it exists
	// LogRead is called for each n bytes that are read of the segment, SidecarWritten for each n
	// bytes that are read or written to build the sidecar. Both throttle; an error ends the build.
	LogRead, SidecarWritten func(n int) error
}

// withDefaults fills in the optional fields. Compress stays nil: record.Builder has the default.
func (j Job) withDefaults() Job {
	if j.Rules.SegmentBytes == 0 {
		j.Rules.SegmentBytes = 1 << 30
	}
	if j.Limits.MemoryBytes == 0 {
		j.Limits.MemoryBytes = 128 << 20
	}
	if j.Limits.BatchBytesMax == 0 {
		j.Limits.BatchBytesMax = 128 << 20
	}
	if j.Limits.Workers < 1 || j.Limits.Parallel == nil {
		j.Limits.Workers = 1
	}
	if j.Limits.Parallel == nil {
		j.Limits.Parallel = func(n int, do func(int)) {
			for i := range n {
				do(i)
			}
		}
	}
	if j.Lineage == nil {
		j.Lineage = func(int64) uint64 { return 0 }
	}
	if j.Env.Producers == nil {
		j.Env.Producers = func() map[int64]Producer { return j.Producers }
	}
	if j.Env.Throttle == nil {
		j.Env.Throttle = func(context.Context, int) error { return nil }
	}
	if j.Env.Report == nil {
		j.Env.Report = func(PassProgress) {}
	}
	return j
}
