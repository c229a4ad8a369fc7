package clean

import (
	"context"
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// pass is the state of one Run.
type pass struct {
	Job
	ctx      context.Context
	stats    Stats
	memory   memory
	meter    meter
	progress PassProgress

	plans   []*plan // one a segment
	aborted transactions
	// an older value may hide in what nobody could read: no tombstone goes, and no clock begins
	blind    bool
	waiting  bool // something may become lonely that is not yet: another pass must look
	replaced []carried
}

// newPass prepares a pass. It reads nothing.
func newPass(ctx context.Context, job Job) *pass {
	p := &pass{Job: job, ctx: ctx, memory: memory{limit: job.Limits.MemoryBytes}}
	p.stats.CleanedTo, p.stats.SegmentsTotal, p.stats.AwaitsReplicasAt = job.FirstDirty, len(job.Sources), -1
	for i, source := range job.Sources {
		p.plans = append(p.plans,
			&plan{number: i, segment: source.Segment, supersededMs: math.MaxInt64, holds: nowhere,
				waitsAt: -1})
		// Until it is known what is made, read and rewritten, all of it is taken to be: the ratio
		// may jump ahead, never back.
		p.progress.TotalBytes += workBytes * source.Segment.SizeBytes()
	}
	return p
}

// workBytes is how often a segment's bytes are counted: for the making of its sidecar, for the
// reading of that, for its rewrite.
const workBytes = 3

// run opens the sidecars, and goes through the log in windows: as many segments as there is memory
// for their bitmaps. Mostly it is one. Each window reads the slices of all sidecars, because what
// supersedes a record may be anywhere above it, and what makes a tombstone stay anywhere below.
func (p *pass) run() error {
	for _, plan := range p.plans {
		plan.cache = newCacheUse(plan.segment)
	}
	if err := p.index(); err != nil {
		return err
	}
	windows := p.windows()
	p.indexed(len(windows))
	for _, w := range windows {
		if err := p.window(w); err != nil {
			return fmt.Errorf("clean segments %d to %d: %w", p.plans[w.from].segment.Base(),
				p.plans[w.to-1].segment.Base(), err)
		}
	}
	p.meter.done.Store(p.progress.TotalBytes)
	p.enter(Committing)
	if p.waiting {
		p.noteNext(p.Now.Add(max(2*p.Rules.TombstoneRetention, shortestWait)))
	}
	if p.stats.SegmentsNoSpace > 0 && p.stats.SegmentsRewritten == 0 {
		return ErrNoSpace
	}
	return p.findLonely()
}

// index opens the sidecars of all segments; those that are missing are made.
func (p *pass) index() error {
	p.enter(Indexing)
	for i, plan := range p.plans {
		reader, err := p.Env.OpenSidecar(p.ctx, plan.segment, p.keysOptions(false))
		if err == nil {
			err = p.ctx.Err()
		}
		if err != nil {
			if reader != nil {
				err = errors.Join(err, reader.Close())
			}
			return fmt.Errorf("open key sidecar of segment %d: %w", plan.segment.Base(), err)
		}
		// for the making of the sidecar, or to hold it against the data
		plan.cache.read(0, plan.segment.SizeBytes())
		if plan.keys = reader; reader == nil {
			p.blind = true
			continue
		}
		reader.OnRead(p.sidecarRead)
		plan.counts = reader.Counts()
		p.blind = p.blind || plan.counts.Opaque > 0
		p.stats.OpaqueBatches += plan.counts.Opaque
		p.stats.RecordsRead += int64(plan.counts.Records)
		plan.before = p.believed(plan, p.Sources[i].DeadFile)
	}
	return nil
}

// keysOptions accounts what the making of a sidecar costs.
func (p *pass) keysOptions(anew bool) SidecarOptions {
	return SidecarOptions{
		Rebuild:        anew,
		LogRead:        p.logRead,
		SidecarWritten: p.sidecarWritten,
	}
}

// believed returns what a .dead file says, nil if it does not count for this segment, in this log,
// any more.
func (p *pass) believed(plan *plan, content []byte) *DeadFile {
	if content == nil {
		return nil
	}
	d, err := DecodeDeadFile(content)
	if err != nil || d.Binding != plan.binding() || d.ComputedThrough > p.Bound ||
		d.Lineage != p.Lineage(d.ComputedThrough) {
		return nil
	}
	return d
}

// remake makes the sidecar of a segment anew.
func (p *pass) remake(s *segment.Segment) error {
	reader, err := p.Env.OpenSidecar(p.ctx, s, p.keysOptions(true))
	if err != nil {
		return fmt.Errorf("make key sidecar of segment %d anew: %w", s.Base(), err)
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

// window is the plans [from, to).
type window struct{ from, to int }

// bitmapShare of the memory is for bitmaps; the rest is for tables, in which more memory only makes
// the reads longer.
const bitmapShare = 0.5

// windows cuts the log into parts whose bitmaps fit the memory. One segment is taken whatever it
// needs: a pass never fails because the log is legal but large.
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

// window cleans one part of the log. All that can find a fault in the sidecars' sections is done
// before its first rewrite.
func (p *pass) window(w window) error {
	plans := p.plans[w.from:w.to]
	defer func() {
		for _, plan := range plans {
			plan.freeBitmaps(&p.memory)
		}
	}()
	p.enter(Deduplicating)
	if err := p.findTransactions(w); err != nil {
		return err
	}
	if err := p.resolve(w); err != nil {
		return err
	}
	for _, plan := range plans {
		if err := p.measure(plan); err != nil {
			return err
		}
	}
	p.choose(plans)
	groups := p.group(plans)
	p.announce(plans, groups)
	if err := p.rewriteAll(groups); err != nil {
		return err
	}
	return p.settle(w)
}

// end is where segment i ends, exclusive: at the base of the next, for offsets between them are
// gone or were never used.
func (p *pass) end(i int) int64 {
	if i+1 < len(p.plans) {
		return p.plans[i+1].segment.Base()
	}
	return p.Bound
}

// retained tells whether a batch must stay though all its records go: the last data batch of an
// active producer, for its sequence numbers (I25, by offset: I27); the markers of one that has
// nothing else; and the batch that ends at the bound, so that the end of the log is known from the
// log (I29).
func (p *pass) retained(b keys.Batch) bool {
	if b.LastOffset+1 == p.Bound {
		return true
	}
	producer, active := p.Producers[b.ProducerID]
	switch {
	case !active || b.ProducerID < 0:
		return false
	case b.Marker != keys.NoMarker:
		return producer.LastOffset < 0 && producer.Epoch == b.ProducerEpoch
	}
	return producer.LastOffset == b.LastOffset
}
