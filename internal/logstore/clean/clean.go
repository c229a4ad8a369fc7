package clean

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// What Run fails with, besides errors of I/O. In each case the log is legal, and the same pass may
// be tried again.
var (
	// ErrNoSpace is returned when there was something to rewrite, and not enough space on the disk
	// for any of it (F16).
	ErrNoSpace = errors.New("not enough free space to rewrite a segment")
	// ErrSidecar is returned when a sidecar contradicted its segment (F6) and was made anew: the
	// pass is to be begun again. If that fails so too, the log is damaged, or we have a bug.
	ErrSidecar = errors.New("key sidecar contradicts its segment")
	// ErrProducersChanged is returned when a batch that the pass has dropped has become one that
	// must stay (F12).
	ErrProducersChanged = errors.New("the state of a producer changed during the pass")
)

// Phase is what a pass is doing.
type Phase int8

// The phases, in order. Their names are the metric's label values. Idle and Queued are for the
// scheduler, of a log without a pass; Run reports the four others. Rewriting and Committing take
// turns, once for each group.
const (
	Idle Phase = iota
	Queued
	Indexing
	Deduplicating
	Rewriting
	Committing
)

// Phases are all phases, in order.
var Phases = []Phase{Idle, Queued, Indexing, Deduplicating, Rewriting, Committing}

// String returns idle, queued, indexing, deduplicating, rewriting or committing.
func (p Phase) String() string {
	return [...]string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}[p]
}

// Source is one segment of a Job.
type Source struct {
	Segment *segment.Segment
	// DeadFile is the content of its .dead file, nil if it has none. It is believed if it is bound
	// to this very segment, and if it was computed in this lineage (see Job.Lineage).
	DeadFile []byte
	// NoAbortedTxns tells Measure that no transaction was aborted whose marker lies in the segment.
	// It spares the reading of all batches' headers; a pass looks for itself.
	NoAbortedTxns bool
}

// Producer is what is known of an active producer: which of its batches must stay (I25).
type Producer struct {
	// of its last data batch; -1: it has a marker only, and control batches of its epoch stay
	LastOffset int64
	Epoch      int16
}

// Codec is what rebuilt batches are compressed with.
type Codec struct {
	Type  compress.Codec
	Level int // compress.LevelDefault: the codec's own
}

// Rules is what the topic's settings say about cleaning.
type Rules struct {
	TombstoneRetention time.Duration // from when a tombstone or a marker is lonely (X3)
	// a superseded record goes after so long at the latest; 0 or less: no promise
	MaxLag time.Duration
	// MaxGarbagePercent is how much of the cleaned section may be garbage after a pass, for the
	// sake of I/O. 0: none.
	MaxGarbagePercent int
	KeepCodec         bool // rebuilt batches keep their own codec
	// else they get this one; those that lose nothing stay as they are, whatever their codec
	Codec Codec
	// DenseCodec, if set, is what everything is compressed with that a pass writes, also batches
	// that lose nothing: a clean section is written once and read for long. Segments that are not
	// rewritten stay as they are.
	DenseCodec   *Codec
	SegmentBytes int64 // output rolls before it passes this; default 1 GiB
	// TimestampSpanMax is how far apart the timestamps in an output segment may lie, if it is made
	// of several; 0: no matter. A topic that is both compacted and deleted by time needs it:
	// retention takes a segment when its newest record is old enough, and a segment that is merged
	// with a younger one in every pass would never be.
	TimestampSpanMax time.Duration
}

// Limits is what a pass may use.
type Limits struct {
	MemoryBytes int64 // of tables and bitmaps; default 128 MiB
	// BatchBytesMax is what a batch may decompress to, in bytes; default 128 MiB. A sidecar that
	// was made with another limit knows other batches as opaque, which does no harm.
	BatchBytesMax int
	// Workers is how many slices are worked on at once; default 1. Each has its share of the
	// memory.
	Workers int
	// Parallel calls do(0) to do(n-1), on as many goroutines as it likes, and returns when all have
	// returned; nil: one after the other. The pass starts no goroutine of its own.
	Parallel func(n int, do func(i int))
}

// Job is one pass over one log: segments in, segments and Stats out.
//
// Invariant: every segment ends at or below Bound, which is the base of the segment behind the
// last; all below Bound is decided, which is to say at or below the last stable offset.
type Job struct {
	Sources    []Source // [log start, Bound), ascending, all sealed
	LogStart   int64    // records below it were deleted by DeleteRecords
	FirstDirty int64    // what Stats.CleanedTo is if the pass fails
	Bound      int64    // the pass keeps its hands off everything from here on (I2)
	// AbortedAcrossBound are the aborted transactions that begin below Bound and whose marker lies
	// at or above it, where the pass does not look. What is open at Bound and not among them is
	// committed.
	AbortedAcrossBound []segment.AbortedTxn
	// Lineage is that of the leader epochs below an offset (docs/format/dead.md).
	Lineage func(below int64) uint64

	Now    time.Time // when the pass began: tombstones are held against it
	Rules  Rules
	Limits Limits
	// CleaningProgress is what all replicas have told of themselves (X1): a tombstone or a marker
	// goes only where they agree, and a retention after they did. The zero value lets none go;
	// Alone is for a log with one replica.
	CleaningProgress CleaningProgress
	// Producers are the active ones, by id. Whatever is in the log of them at that time must
	// survive a crash.
	Producers map[int64]Producer
	Hasher    keys.Hasher // of the partition's salt

	Env Env
}

// Env is how a pass reaches the log. All of it is called on the goroutine of Run, but for Spend and
// Progress, which the goroutines of Limits.Parallel call too.
type Env struct {
	// OpenSidecar opens the sidecar of a segment, or makes it, which may take as long as reading
	// the segment. A segment that can have none (keys.ErrTooManyRecords) gives nil: its keys are
	// not known. The pass closes it.
	OpenSidecar func(ctx context.Context, s *segment.Segment, opts SidecarOptions) (*keys.Reader, error)
	// Create makes an output segment (suffix .cleaned). base is that of the first source, or, where
	// output rolls, that of the batch that did not fit. Run removes it again if it does not get as
	// far as Replace.
	Create func(base int64) (*segment.Segment, error)
	// DeriveSidecar begins the sidecar of an output segment; it is finished under the name that
	// DerivedName gives, before Replace, and always closed. Nil: no sidecar is derived, and the
	// next pass makes it from the data.
	DeriveSidecar func(base int64) (*keys.Derivation, error)
	SidecarName   func(base int64) string
	// Replace puts sealed output in the place of sources, as one commit point. It owns cleaned from
	// then on, also when it fails.
	Replace func(sources, cleaned []*segment.Segment) error
	// Producers are Job.Producers as of now: they are asked for before each commit (F12). Nil: they
	// do not change.
	Producers func() map[int64]Producer
	// SaveDead puts a .dead file beside a segment of the log, or takes it away if content is nil.
	// It need not survive a crash, and what a failure costs is that clocks begin anew.
	SaveDead func(s *segment.Segment, content []byte) error
	// FreeBytes is the space left on the disk; nil: enough.
	FreeBytes func() (uint64, error)
	// Throttle is called for each n bytes that are read or written, and waits when the pass goes
	// too fast. May be nil.
	Throttle func(ctx context.Context, n int) error
	// Compress does what compress.To does, its default, and may measure it.
	Compress compress.Func
	// Report is called now and then. May be nil.
	Report func(PassProgress)
}

// SidecarOptions say how a sidecar is to be had.
type SidecarOptions struct {
	Rebuild bool // make it even if it is there
	// LogRead is to be told of each n bytes that are read of the segment, and SidecarWritten of
	// each n that are read or written for the making of the sidecar. They account, and wait when
	// the pass goes too fast; an error ends the work.
	LogRead, SidecarWritten func(n int) error
}

// PassProgress is how far a pass is.
type PassProgress struct {
	Phase       Phase
	DoneBytes   int64 // of the whole pass: sidecars and logs read
	TotalBytes  int64 // an upper bound until it is known what is rewritten; it never rises
	MemoryBytes int64 // held now
	// ReclaimableBytes is what is left to free; Measured tells whether that is known yet.
	ReclaimableBytes int64
	Measured         bool
	Chosen           Chosen
	Stats            Stats // so far
}

// Chosen is what a pass is going to rewrite, as far as that is known: what Stats says of it once it
// is done.
type Chosen struct {
	Segments                     int
	Records, Tombstones, Markers int64 // that go
}

// Stats is what a pass did.
type Stats struct {
	CleanedTo int64 // the new first dirty offset: Job.Bound after a success, else Job.FirstDirty
	// TombstoneCleanOffset is up to where the pass has left every tombstone alone: of no key whose
	// latest record is a tombstone below it does the log hold anything older, dead or not. At most
	// Job.Bound; 0 unless the pass succeeded.
	TombstoneCleanOffset int64

	SidecarReadBytes    int64
	SidecarWrittenBytes int64
	LogReadBytes        int64 // of sources
	LogWrittenBytes     int64 // of output, also of output that was discarded
	// what sources held and their replacement does not; groups that grew do not count
	ReclaimedBytes int64

	RecordsRead       int64 // those a decision was made on, each once
	RecordsRemoved    int64 // of groups that were committed
	TombstonesRemoved int64 // of RecordsRemoved: latest records of their keys, past their horizon
	MarkersRemoved    int64 // of RecordsRemoved: transaction markers past their horizon
	BatchesDecoded    int64 // the others were copied whole or skipped unread

	SegmentsTotal     int
	SegmentsRewritten int // sources that were replaced; 0 after a success: there was nothing to do
	SegmentsUntouched int // the others
	SegmentsNoSpace   int // of SegmentsUntouched: chosen, and the disk was too full
	OpaqueBatches     int // kept unread, because they decompress to more than BatchBytesMax
	SidecarsRebuilt   int // found to contradict their segments (F6)

	GarbageBytes   int64 // left below Bound when the pass ended: exact
	GarbageRecords int64
	// with the buffers of the largest batch, so it may exceed Limits.MemoryBytes
	MemoryPeakBytes int64
	// OldestGarbage is since when the oldest of the garbage that is left has been superseded; zero
	// if none is.
	OldestGarbage time.Time
	// NextPass is when the log wants a pass for its tombstones and markers, the earliest time one
	// may go; zero if none stays.
	NextPass time.Time
	// AwaitsReplicasAt is the lowest offset of what is lonely and waits for other replicas
	// (Job.Agreed), -1 if nothing does: a retention after they agree on it the log wants a pass,
	// though NextPass be later.
	AwaitsReplicasAt int64
}

// withDefaults fills in what a Job may leave out. Compress stays nil: record.Builder knows its own
// default.
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

// Run does the pass. On an error or a cancelled ctx what was replaced stays replaced, what was not
// is deleted: the log is legal at every moment. The Stats are those up to then.
//
// A sidecar that contradicts its segment (F6) is made anew, and Run fails with ErrSidecar: the same
// pass, begun again with the segments as they are then, finds it in order.
func Run(ctx context.Context, job Job) (Stats, error) {
	job = job.withDefaults()
	p := newPass(ctx, job)
	err := p.run()
	if wrong := (*sidecarError)(nil); errors.As(err, &wrong) {
		err = errors.Join(err, p.remake(wrong.segment))
	}
	if err == nil {
		p.stats.CleanedTo = job.Bound
	}
	p.stats.MemoryPeakBytes, p.stats.SidecarReadBytes = p.memory.peak, p.meter.sidecar.Load()
	p.stats.SegmentsUntouched = p.stats.SegmentsTotal - p.stats.SegmentsRewritten
	return p.stats, errors.Join(err, p.close())
}

// sidecarError says that a sidecar contradicts its segment.
type sidecarError struct {
	segment *segment.Segment
	reason  string
}

func (e *sidecarError) Error() string {
	return fmt.Sprintf("%v: segment %d: %s", ErrSidecar, e.segment.Base(), e.reason)
}

func (e *sidecarError) Unwrap() error { return ErrSidecar }
