package clean

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// ErrOverBudget is returned when a pass would need more memory than its budget; nothing was changed.
var ErrOverBudget = errors.New("cleaning needs more memory than its budget")

// Phase is what a pass is doing.
type Phase int8

// The phases, in order. Their names are the metric's label values.
const (
	Idle Phase = iota
	Queued
	Indexing
	Deduplicating
	Rewriting
	Committing
)

// String returns idle, queued, indexing, deduplicating, rewriting or committing.
func (p Phase) String() string { panic("unwritten") }

// Job is one pass over one log: segments in, segments and Stats out.
type Job struct {
	Segments   []*segment.Segment // [log start, Bound), ascending, all sealed
	FirstDirty int64
	Bound      int64

	Now                time.Time
	TombstoneRetention time.Duration
	KeepCodec          bool // rebuilt batches keep their own codec
	Codec              compress.Codec
	CodecLevel         int
	SegmentBytes       int64           // output rolls before it passes this
	Producers          map[int64]int64 // active producer id -> last data offset
	MemoryBytes        int64

	// Create makes an output segment (suffix .cleaned).
	Create func(base int64) (*segment.Segment, error)
	// Replace puts sealed output in the place of sources, as one commit point. It owns cleaned from then on.
	Replace func(sources, cleaned []*segment.Segment) error
	// Spend is called before n bytes are read or written, and waits when the pass goes too fast. May be nil.
	Spend func(ctx context.Context, n int) error
	// Progress is called now and then, on the goroutine of Run. May be nil.
	Progress func(phase Phase, done, total int64)
}

// Stats is what a pass did.
type Stats struct {
	CleanedTo         int64 // the new first dirty offset
	ReadBytes         int64
	WrittenBytes      int64
	ReclaimedBytes    int64
	RecordsRead       int64
	RecordsRemoved    int64
	TombstonesRemoved int64
	SegmentsRead      int
	SegmentsRewritten int
	MemoryPeakBytes   int64
	// NextHorizon is when the earliest tombstone that stays may go, zero if none stays: the log wants a pass then.
	NextHorizon time.Time
}

// Run does the pass. On an error or a cancelled ctx what was replaced stays replaced, what was not is deleted: the log is
// legal at every moment.
func Run(ctx context.Context, job Job) (Stats, error) { panic("unwritten") }
