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
// Invariant: Bound is the base offset of the segment after the last source, and at most the last
// stable offset. So every transaction with a batch below Bound is committed or aborted.
type Job struct {
	Sources    []Source // segments in [log start, Bound), ascending, all sealed
	LogStart   int64    // records below it were deleted by DeleteRecords
	FirstDirty int64    // first dirty offset before the pass; Stats.CleanedTo if the pass fails
	Bound      int64    // cleanable bound: the pass changes nothing at or above it (I2)
	// AbortedAcrossBound lists the aborted transactions that begin below Bound and whose marker is
	// at or above Bound. The pass does not read these markers. Any other transaction that begins
	// below Bound and has no marker below Bound is committed.
	AbortedAcrossBound []segment.AbortedTxn
	// Lineage returns the leader epoch of the last record below an offset. A .dead file stores this
	// epoch for its pass's bound. After a truncation below that bound, Lineage returns a later
	// epoch, and the pass ignores the file (docs/internals/format/dead.md).
	Lineage func(below int64) uint64

	Now    time.Time // start of the pass; decides which retentions have ended
	Rules  Rules
	Limits Limits
	// CleaningProgress is the replicated cleaning progress (X1). A tombstone or marker is removed
	// only below this progress, and only one retention after the progress has passed its offset.
	// The zero value permits no removal. SingleReplica is the value for a log without other
	// replicas.
	CleaningProgress CleaningProgress
	// Producers contains the active producers by id. The pass keeps the batches from which the
	// producers' state can be recovered after a crash (I25).
	Producers map[int64]Producer
	Hasher    keys.Hasher // hasher with the partition's salt

	Env Env
}

// Source is one segment of a Job.
type Source struct {
	Segment *segment.Segment
	// DeadFile is the content of the segment's .dead file, or nil if there is no such file. The
	// pass ignores a file that was computed for other bytes of the segment or in another lineage of
	// the log (see Job.Lineage).
	DeadFile []byte
	// NoAbortedTxns is set if the segment contains no abort marker. EstimateGarbage then skips the
	// sidecar's batch entries. Run ignores this field and always reads the batch entries.
	NoAbortedTxns bool
}

// Producer is the state of an active producer. The state determines which of the producer's batches
// must remain (I25).
type Producer struct {
	// LastOffset is the last offset of the producer's last data batch. It is -1 if the log contains
	// only markers of the producer. Then the markers with the producer's current epoch remain.
	LastOffset int64
	Epoch      int16
	// ExpiresAt is the time from which the producer's batches are no longer needed; zero if it is
	// not known.
	ExpiresAt time.Time
}

// Codec is the compression of rebuilt batches.
type Codec struct {
	Type  compress.Codec
	Level int // compress.LevelDefault for the codec's default level
}

// Rules are the cleaning settings of the topic.
type Rules struct {
	TombstoneRetention time.Duration // counted from when a tombstone or marker became removable (X3)
	// MaxLag is the longest time that a superseded record may remain in the log; unlimited if 0 or
	// less.
	MaxLag time.Duration
	// MaxGarbagePercent is the share of the segments' bytes below Bound that a pass may leave as
	// garbage to save I/O. With 0, the pass leaves no garbage.
	MaxGarbagePercent int
	KeepCodec         bool // true if rebuilt batches keep their own codec
	// Codec is the codec of rebuilt batches, unless KeepCodec is set. Copied batches keep their
	// codec.
	Codec Codec
	// DenseCodec, if set, is the codec of every data batch that a pass writes, including batches
	// without dead records. A slow codec can be worthwhile, because the clean section is written
	// once and read for a long time. Segments that are not rewritten keep their codecs.
	DenseCodec   *Codec
	SegmentBytes int64 // size limit at which the output rolls; default 1 GiB
	// TimestampSpanMax is the largest difference between timestamps in an output segment that is
	// merged from several sources; 0 means unlimited. Topics with the cleanup policy compact,delete
	// need this limit: retention deletes a segment when its newest record has expired. If every
	// pass merged a segment with a younger one, no segment would ever expire.
	TimestampSpanMax time.Duration
}

// Limits bound the resources of a pass.
type Limits struct {
	MemoryBytes int64 // for tables and bitmaps; default 128 MiB
	// BatchBytesMax is the largest decompressed size of a batch that is decoded, in bytes; default
	// 128 MiB. Larger batches are opaque: they are kept without being read. The sidecar stores
	// which batches are opaque, and remains valid if it was built under another limit.
	BatchBytesMax int
	// Workers is the number of hash slices that are resolved concurrently; default 1. The tables of
	// all workers have the same size.
	Workers int
	// Parallel calls do(0) to do(n-1), on any number of goroutines, and returns when all calls have
	// returned. If it is nil, the calls are made one after the other.
	Parallel func(n int, do func(i int))
}

// Env connects a pass to the log. Its functions are called on the goroutine of Run, except for
// Throttle and Report, which the goroutines of Limits.Parallel call too.
type Env struct {
	// OpenSidecar opens a segment's sidecar, or builds it, which may take as long as reading the
	// segment. It returns nil for a segment with too many records for a sidecar
	// (keys.ErrTooManyRecords). The keys of such a segment are unknown. The pass closes the reader.
	OpenSidecar func(ctx context.Context, s *segment.Segment,
		opts SidecarOptions) (*keys.Reader, error)
	// Create creates an output segment (suffix .cleaned). base is the base offset of the first
	// source or, after a roll, of the first batch that the pass writes to the segment. If Run fails
	// before it calls Replace, it deletes the segment.
	Create func(base int64) (*segment.Segment, error)
	// DeriveSidecar starts the sidecar of an output segment. Before Replace, the pass writes the
	// sidecar to the file that SidecarName names. It always closes the Derivation. If DeriveSidecar
	// is nil, no sidecar is derived, and the next pass builds the sidecar from the data.
	DeriveSidecar func(base int64) (*keys.Derivation, error)
	SidecarName   func(base int64) string
	// Replace replaces the sources by the cleaned segments, which are sealed, at one commit point.
	// As soon as it is called, it owns the cleaned segments, even if it fails.
	Replace func(sources, cleaned []*segment.Segment) error
	// Producers returns the current state of the active producers. Before each commit the pass
	// compares this state with Job.Producers (F12). Nil means that the state does not change.
	Producers func() map[int64]Producer
	// SaveDead writes the .dead file of a segment, or removes it if content is nil. The file does
	// not have to survive a crash: if it is lost, the retention of removable tombstones starts
	// again.
	SaveDead func(s *segment.Segment, content []byte) error
	// FreeBytes returns the free space of the disk; nil means unlimited space.
	FreeBytes func() (uint64, error)
	// Throttle is called after n more bytes of I/O, and blocks while the pass exceeds its I/O rate.
	// It may be nil.
	Throttle func(ctx context.Context, n int) error
	// Compress replaces compress.To, for example to measure compression. If Compress is nil,
	// compress.To is used.
	Compress compress.Func
	// Report receives the progress of the pass from time to time. It may be nil.
	Report func(PassProgress)
	// Stage receives each step of the rewrites after the step is complete. It may be nil.
	Stage func(Step)
}

// SidecarOptions control Env.OpenSidecar.
type SidecarOptions struct {
	Rebuild bool // true to build a new sidecar even if one exists
	// LogRead is called after each read of n bytes from the segment. SidecarWritten is called after
	// each n bytes that building the sidecar has written, or read again for sorting. Both functions
	// may block to limit the I/O rate. If one of the functions fails, the build fails.
	LogRead, SidecarWritten func(n int) error
}

// withDefaults fills in the optional fields, except Env.Compress, because record.Builder uses
// compress.To instead of nil.
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
