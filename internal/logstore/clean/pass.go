package clean

import (
	"context"
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// pass is the state of one call of Run. Its methods execute the steps in order and provide the
// inputs of each step.
type pass struct {
	job      Job
	io       ioMeter
	memory   memory
	stats    Stats
	progress PassProgress // without the fields that report fills in
	followUp followUp

	plans   []*plan // one per source
	policy  batchPolicy
	aborted abortedTxns
	// unknownKeys is set if a segment has no sidecar or has opaque batches. Such a segment may
	// contain an older record of any key, so no tombstone becomes removable or is removed.
	unknownKeys bool
	replaced    []*outputSegment // output segments of the current window that have a sidecar
	emptied     emptiedTxns
}

// newPass returns a pass that has not read anything yet.
func newPass(ctx context.Context, job Job) *pass {
	p := &pass{
		job: job, memory: memory{limit: job.Limits.MemoryBytes},
		policy: batchPolicy{bound: job.Bound, producers: job.Producers},
	}
	p.io = ioMeter{ctx: ctx, throttle: job.Env.Throttle, report: p.report, stats: &p.stats}
	p.emptied = emptiedTxns{policy: p.policy, open: map[int64]bool{}}
	p.followUp = followUp{stats: &p.stats, progress: job.CleaningProgress,
		retention: job.Rules.TombstoneRetention}
	p.stats.CleanedTo, p.stats.SegmentsTotal = job.FirstDirty, len(job.Sources)
	p.stats.AwaitsReplicasAt = -1
	for i, source := range job.Sources {
		p.plans = append(p.plans, &plan{index: i, segment: source.Segment,
			supersededMs: math.MaxInt64, blocks: noRecord, blockedAt: -1})
		// The initial total assumes that every sidecar is built, and that every segment is
		// rewritten. Later steps replace it by the actual work, which is less. So the reported
		// progress can jump ahead, but never falls.
		p.progress.TotalBytes += segmentWork * source.Segment.SizeBytes()
	}
	return p
}

// segmentWork is the number of times that the initial TotalBytes includes a segment's size: for
// building its sidecar, for reading the sidecar, for rewriting the segment, and for deriving the
// output segment's sidecar.
const segmentWork = 4

// run opens the sidecars and cleans the log window by window. A window is a run of adjacent
// segments whose bitmaps together fit into the memory budget; usually one window covers the log.
// For each window the pass also reads the sidecars of the segments outside the window: any later
// segment may contain a record that supersedes one in the window, and any earlier segment may
// contain a record that blocks a tombstone in the window.
func (p *pass) run() error {
	for _, plan := range p.plans {
		plan.cache = newCacheUse(plan.segment)
	}
	if err := p.index(); err != nil {
		return err
	}
	windows := p.windows()
	perWindow := p.countSidecarReads(len(windows))
	for _, w := range windows {
		if err := p.clean(w, perWindow); err != nil {
			return fmt.Errorf("clean segments %d to %d: %w", p.plans[w.from].segment.Base(),
				p.plans[w.to-1].segment.Base(), err)
		}
	}
	p.io.begin(p.progress.TotalBytes - p.io.doneBytes())
	p.io.end()
	p.enter(Committing)
	if p.followUp.undetermined {
		p.followUp.at(p.job.Now.Add(max(2*p.job.Rules.TombstoneRetention, followUpShortest)))
	}
	if p.stats.SegmentsNoSpace > 0 && p.stats.SegmentsRewritten == 0 {
		return ErrNoSpace
	}
	offset, err := tombstoneCleanOffset(p.plans, p.job.Bound)
	p.stats.TombstoneCleanOffset = offset
	return err
}

// index opens the sidecars of all segments, and builds the sidecars that are missing.
func (p *pass) index() error {
	p.io.begin(sizeOfPlans(p.plans))
	p.enter(Indexing)
	for i, plan := range p.plans {
		reader, err := p.job.Env.OpenSidecar(p.io.ctx, plan.segment, p.sidecarOptions(false))
		if err == nil {
			err = p.io.ctx.Err()
		}
		if err != nil {
			if reader != nil {
				err = errors.Join(err, reader.Close())
			}
			return fmt.Errorf("open key sidecar of segment %d: %w", plan.segment.Base(), err)
		}
		// OpenSidecar may have read the segment to build or verify the sidecar, so evict the pages
		// that were not cached before.
		plan.cache.read(0, plan.segment.SizeBytes())
		if plan.keys = reader; reader == nil {
			p.unknownKeys = true
			continue
		}
		reader.OnRead(p.io.sidecarRead)
		plan.counts = reader.Counts()
		p.unknownKeys = p.unknownKeys || plan.counts.Opaque > 0
		p.stats.OpaqueBatches += plan.counts.Opaque
		p.stats.RecordsRead += int64(plan.counts.Records)
		plan.previous = p.verifiedDeadFile(plan, p.job.Sources[i].DeadFile)
	}
	return nil
}

func (p *pass) sidecarOptions(rebuild bool) SidecarOptions {
	return SidecarOptions{
		Rebuild:        rebuild,
		LogRead:        p.io.logRead,
		SidecarWritten: p.io.sidecarWritten,
	}
}

// verifiedDeadFile decodes a .dead file. It returns nil if the file is damaged, or if it was
// computed for other bytes of the segment, in another lineage of the log, or above this pass's
// bound.
func (p *pass) verifiedDeadFile(plan *plan, content []byte) *DeadFile {
	if content == nil {
		return nil
	}
	d, err := DecodeDeadFile(content)
	if err != nil || d.Binding != plan.binding() || d.ComputedThrough > p.job.Bound ||
		d.Lineage != p.job.Lineage(d.ComputedThrough) {
		return nil
	}
	return d
}

func (p *pass) rebuildSidecar(s *segment.Segment) error {
	reader, err := p.job.Env.OpenSidecar(p.io.ctx, s, p.sidecarOptions(true))
	if err != nil {
		return fmt.Errorf("rebuild key sidecar of segment %d: %w", s.Base(), err)
	}
	p.stats.SidecarsRebuilt++
	if reader == nil {
		return nil
	}
	return reader.Close()
}

// close closes the sidecars.
func (p *pass) close() error {
	var failed []error
	for _, plan := range p.plans {
		if plan.keys != nil {
			failed = append(failed, plan.keys.Close())
		}
	}
	return errors.Join(failed...)
}

// window is the range [from, to) of plans whose bitmaps are in memory at the same time.
type window struct{ from, to int }

func (w window) contains(index int) bool { return w.from <= index && index < w.to }

// bitmapShare is the share of the memory budget for bitmaps. The rest is for the hash tables of
// sliceResolver. Too little memory for bitmaps causes another read of all sidecars per window. Less
// memory for tables only makes the reads of a sidecar shorter.
const bitmapShare = 0.5

// windows divides the log into windows whose bitmaps fit into the memory budget. A window has at
// least one segment, even if that segment exceeds the budget: a pass never fails because the log is
// large.
func (p *pass) windows() []window {
	var all []window
	var bytes int64
	for i, plan := range p.plans {
		needed := plan.bitmapsBytes()
		if n := len(all); n > 0 && float64(bytes+needed) <= bitmapShare*float64(p.memory.limit) {
			all[n-1].to, bytes = i+1, bytes+needed
			continue
		}
		all, bytes = append(all, window{i, i + 1}), needed
	}
	return all
}

// clean cleans one window. For this, it plans to read sidecarBytes bytes of the sidecars. The steps
// before the window's first rewrite read every section of a sidecar that the rewrites use, so a
// damaged section is detected before anything is replaced.
func (p *pass) clean(w window, sidecarBytes int64) error {
	plans := p.plans[w.from:w.to]
	defer func() {
		for _, plan := range plans {
			plan.freeBitmaps(&p.memory)
		}
	}()
	p.io.begin(sidecarBytes)
	p.enter(Deduplicating)
	if err := p.findTransactions(w); err != nil {
		return err
	}
	if err := p.deduplicate(w); err != nil {
		return err
	}
	m := measurer{
		rules: &p.job.Rules, now: p.job.Now,
		progress: p.job.CleaningProgress, policy: p.policy, unknownKeys: p.unknownKeys,
		memory: &p.memory, followUp: &p.followUp,
	}
	for _, plan := range plans {
		if err := m.measure(plan); err != nil {
			return err
		}
	}
	chooseSegments(plans, p.job.Rules.MaxGarbagePercent, p.job.Now)
	groups := rewriteGroups(plans, p.job.Rules.SegmentBytes, p.job.Rules.TimestampSpanMax)
	p.io.end()
	p.countRewrites(plans, groups)
	p.announce(plans, groups)
	if err := p.rewriteAll(groups); err != nil {
		return err
	}
	return p.settle(w)
}

// findTransactions finds the log's aborted transactions, allocates the window's bitmaps, and sets
// the ignored records of all plans.
func (p *pass) findTransactions(w window) (err error) {
	p.aborted, err = findTransactions(p.plans, p.job.AbortedAcrossBound, p.job.Bound,
		func(plan *plan, loneMarkers []uint32) {
			if !w.contains(plan.index) || plan.keys == nil {
				return
			}
			plan.makeBitmaps(&p.memory)
			for _, ordinal := range loneMarkers {
				plan.latest.set(ordinal)
			}
		})
	if err != nil {
		return err
	}
	return findIgnored(p.plans, p.aborted, p.deletion())
}

func (p *pass) deletion() deletion {
	return deletion{logStart: p.job.LogStart, batchBytesMax: p.job.Limits.BatchBytesMax, io: &p.io}
}

// countSidecarReads lowers TotalBytes once all sidecars exist. The new value consists of the bytes
// that were already read, a rewrite of every segment, and one read of all sidecars per window. It
// returns the size of that read.
func (p *pass) countSidecarReads(windows int) (perWindow int64) {
	p.progress.TotalBytes = p.io.doneBytes()
	for _, plan := range p.plans {
		p.progress.TotalBytes += plan.segment.SizeBytes() + plan.sidecarBytes(1)
		perWindow += plan.sidecarBytes(int64(windows)) / int64(windows)
	}
	p.progress.TotalBytes += perWindow * int64(windows)
	return perWindow
}

// sidecarBytes returns the number of bytes planned for the given number of reads of the sidecar: at
// most the size of the segment, which the initial TotalBytes includes.
func (p *plan) sidecarBytes(reads int64) int64 {
	if p.keys == nil {
		return 0
	}
	return min(p.segment.SizeBytes(), reads*p.keys.SizeBytes())
}

func sizeOfPlans(plans []*plan) (bytes int64) {
	for _, plan := range plans {
		bytes += plan.segment.SizeBytes()
	}
	return bytes
}

// countRewrites reports the bytes and records that rewriting a window's groups will read, remove
// and free. It never increases TotalBytes, which until now included a rewrite of every segment in
// the window.
func (p *pass) countRewrites(plans []*plan, groups []rewriteGroup) {
	p.progress.Measured = true
	for _, plan := range plans {
		p.progress.TotalBytes -= plan.segment.SizeBytes() + plan.sidecarBytes(1)
	}
	for _, g := range groups {
		p.progress.TotalBytes += g.readBytes()
		for _, plan := range g {
			p.progress.Chosen.Bytes += plan.readBytes
			p.progress.ReclaimableBytes += plan.deadBytes
			p.progress.Chosen.Segments++
			p.progress.Chosen.Records += plan.removed
			p.progress.Chosen.Tombstones += plan.tombstones
			p.progress.Chosen.Markers += plan.markers
		}
	}
	p.enter(Rewriting)
}

// enter changes the phase and reports it at once.
func (p *pass) enter(phase Phase) {
	p.progress.Phase = phase
	p.report()
}

// report passes the current progress to Env.Report.
func (p *pass) report() {
	now := p.progress
	now.MemoryBytes = p.memory.used
	now.DoneBytes = min(p.io.doneBytes(), now.TotalBytes)
	now.Stats = p.stats
	now.Stats.SidecarReadBytes = p.io.sidecarBytes.Load()
	p.job.Env.Report(now)
}
