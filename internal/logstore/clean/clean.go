package clean

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// What Run refuses with; in both cases nothing was changed.
var (
	// ErrOverBudget is returned when a pass would need more memory than its budget.
	ErrOverBudget = errors.New("cleaning needs more memory than its budget")
	// ErrTransactional is returned when the range holds transactional or control batches: cleaning them comes with
	// transactions, and cleaning them as plain ones would show aborted records or hide committed ones.
	ErrTransactional = errors.New("cleaning a log with transactions is not supported yet")
)

// Phase is what a pass is doing.
type Phase int8

// The phases, in order. Their names are the metric's label values. Idle and Queued are for the scheduler, of a log without a
// pass; Run reports the four others. Rewriting and Committing take turns, once for each group.
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

// Job is one pass over one log: segments in, segments and Stats out.
//
// Invariant: every segment ends at or below Bound, which is the base of the segment behind the last; FirstDirty <= Bound, and
// below FirstDirty no key stands twice.
type Job struct {
	Segments   []*segment.Segment // [log start, Bound), ascending, all sealed
	FirstDirty int64              // below it a former pass has cleaned; it may lie inside a segment, or inside a batch
	Bound      int64              // the pass keeps its hands off everything from here on (I2)

	Now                time.Time      // when the pass began: tombstones are held against it
	TombstoneRetention time.Duration  // from Now on, for tombstones whose older values go with this pass (X3)
	KeepCodec          bool           // rebuilt batches keep their own codec
	Codec              compress.Codec // of rebuilt batches; those that lose nothing stay as they are, whatever their codec
	CodecLevel         int            // of Codec; compress.LevelDefault: its own
	SegmentBytes       int64          // output rolls before it passes this; default 1 GiB
	// SpanMax is how far apart the timestamps in an output segment may lie, if it is made of several; 0: no matter. A topic that is
	// both compacted and deleted by time needs it: retention takes a segment when its newest record is old enough, and a segment
	// that is merged with a younger one in every pass would never be.
	SpanMax     time.Duration
	Producers   map[int64]int64 // active producer id -> last data offset; the batches that end there stay (I25)
	MemoryBytes int64           // of tables and plans; default 128 MiB
	// BatchBytesMax is what a batch may decompress to, in bytes; default 128 MiB. A batch beyond it is kept unread. It must be the
	// same in every pass over a log: were such a batch readable one day, the clean section could hold a key twice, and a tombstone
	// would go that still hides an older value. So it does not depend on MemoryBytes, which users change.
	BatchBytesMax int
	// HashKey is secret, so that nobody can make two keys that look alike. Zero works.
	HashKey [16]byte

	// Create makes an output segment (suffix .cleaned). base is that of the first source, or, where output rolls, that of
	// the batch that did not fit. Run removes it again if it does not get as far as Replace.
	Create func(base int64) (*segment.Segment, error)
	// Replace puts sealed output in the place of sources, as one commit point. It owns cleaned from then on, also when it fails.
	Replace func(sources, cleaned []*segment.Segment) error
	// Spend is called for each n bytes that are read or written, and waits when the pass goes too fast. May be nil.
	Spend func(ctx context.Context, n int) error
	// Compress does what compress.To does, its default, and may measure it.
	Compress compress.Func
	// Progress is called now and then, on the goroutine of Run. May be nil.
	Progress func(Progress)
}

// Progress is how far a pass is.
type Progress struct {
	Phase       Phase
	DoneBytes   int64 // of the whole pass
	TotalBytes  int64 // an upper bound until all is read; it never rises
	MemoryBytes int64 // held now
	// ReclaimableBytes is what is left to free; Measured tells whether that is known yet.
	ReclaimableBytes int64
	Measured         bool
	Stats            Stats // so far
}

// withDefaults fills in what a Job may leave out. Compress stays nil: record.Builder knows its own default.
func (j Job) withDefaults() Job {
	if j.SegmentBytes == 0 {
		j.SegmentBytes = 1 << 30
	}
	if j.MemoryBytes == 0 {
		j.MemoryBytes = 128 << 20
	}
	if j.BatchBytesMax == 0 {
		j.BatchBytesMax = 128 << 20
	}
	if j.Spend == nil {
		j.Spend = func(context.Context, int) error { return nil }
	}
	if j.Progress == nil {
		j.Progress = func(Progress) {}
	}
	return j
}

// Stats is what a pass did.
type Stats struct {
	CleanedTo         int64 // the new first dirty offset: Job.Bound after a success, else Job.FirstDirty
	ReadBytes         int64 // of sources; a segment that is rewritten counts twice
	WrittenBytes      int64 // of output, also of output that was discarded
	ReclaimedBytes    int64 // what sources held and their replacement does not; groups that grew do not count
	RecordsRead       int64 // each once, by resolve; those of opaque batches not at all
	RecordsRemoved    int64 // of groups that were committed
	TombstonesRemoved int64 // of RecordsRemoved: latest records of their keys, past their horizon
	SegmentsRead      int   // by resolve
	SegmentsRewritten int   // sources that were replaced; 0 after a success: there was nothing to do
	OpaqueBatches     int   // kept unread, because they decompress to more than BatchBytesMax
	MemoryPeakBytes   int64 // with the buffers of the largest batch, so it may exceed Job.MemoryBytes
	// NextHorizon is when the earliest tombstone that stays may go, zero if none stays: the log wants a pass then.
	NextHorizon time.Time
}

// Run does the pass. On an error or a cancelled ctx what was replaced stays replaced, what was not is deleted: the log is
// legal at every moment. The Stats are those up to then.
func Run(ctx context.Context, job Job) (Stats, error) {
	p := newPass(ctx, job.withDefaults())
	err := p.run()
	if err == nil {
		p.stats.CleanedTo = job.Bound
	}
	p.stats.MemoryPeakBytes = p.memory.peak
	return p.stats, err
}

// pass is the state of one Run.
type pass struct {
	Job
	ctx    context.Context
	stats  Stats
	memory memory

	plans    []*plan // one a segment
	progress Progress
	unpaid   int // bytes read or written that Spend was not told yet
}

// newPass prepares a pass, and one empty plan for each segment. It reads nothing.
func newPass(ctx context.Context, job Job) *pass {
	p := &pass{Job: job, ctx: ctx, memory: memory{limit: job.MemoryBytes}}
	p.stats.CleanedTo = job.FirstDirty
	for _, s := range job.Segments {
		p.plans = append(p.plans, &plan{segment: s})
		// Until the plan is made, rewriting is taken to cost as much as reading: the ratio may jump ahead, never back.
		p.progress.TotalBytes += 2 * s.SizeBytes()
	}
	return p
}

// run does the four steps (see the package comment). All that can find a fault in the log is done before the first rewrite;
// what can fail after that is I/O, and the end of ctx.
func (p *pass) run() error {
	if err := p.resolve(); err != nil {
		return p.withNeed(err)
	}
	if err := p.decide(); err != nil {
		return err
	}
	groups := p.group()
	p.measure(groups)
	for _, g := range groups {
		if err := p.rewrite(g); err != nil {
			return err
		}
	}
	p.enter(Committing)
	return nil
}

// measure tells what the groups cost and bring. TotalBytes only falls here: newPass had counted every segment as rewritten.
func (p *pass) measure(groups [][]*plan) {
	p.progress.TotalBytes, p.progress.Measured = p.progress.DoneBytes, true
	for _, g := range groups {
		for _, plan := range g {
			p.progress.TotalBytes += plan.segment.SizeBytes()
			p.progress.ReclaimableBytes += plan.reclaimableBytes()
		}
	}
}

// enter reports that the pass is in another phase, at once and not only with the next bytes.
func (p *pass) enter(phase Phase) {
	p.progress.Phase = phase
	p.report()
}

// report tells the Job's owner how far the pass is.
func (p *pass) report() {
	p.progress.MemoryBytes = p.memory.used
	p.progress.Stats = p.stats
	p.Progress(p.progress)
}

// spendBytes is how often Spend and Progress are called: not for each small batch.
const spendBytes = 64 << 10

// spend accounts n bytes of I/O. It ends the pass when its context has ended. The last bytes of a pass, fewer than
// spendBytes, are never paid for.
func (p *pass) spend(n int) error {
	p.unpaid += n
	if p.unpaid < spendBytes {
		return p.ctx.Err()
	}
	n, p.unpaid = p.unpaid, 0
	p.report()
	if err := p.Spend(p.ctx, n); err != nil {
		return err
	}
	return p.ctx.Err()
}

// read accounts n bytes of a source that were read. Progress goes by these alone: how much will be written nobody knows
// before.
func (p *pass) read(n int) error {
	p.stats.ReadBytes += int64(n)
	p.progress.DoneBytes += int64(n)
	return p.spend(n)
}
