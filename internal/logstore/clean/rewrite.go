package clean

import (
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// rewriteAll rewrites the groups in ascending order. If a group's output does not fit into the free
// space, the group is split into its chosen segments. These segments are retried one by one at the
// end, when the rewrites of other groups have freed space. Segments that were only to be merged are
// left out: on a full disk, freeing bytes matters more than reducing the number of segments (F16).
func (p *pass) rewriteAll(groups []rewriteGroup) error {
	for round := range 2 {
		var left []rewriteGroup
		for _, g := range groups {
			fits, err := g.fits(p.job.Env.FreeBytes)
			if err != nil {
				return err
			}
			if !fits {
				left = append(left, g.chosenAlone()...)
				continue
			}
			if err := p.rewrite(g); err != nil {
				return err
			}
		}
		if groups = left; len(left) == 0 || round == 1 {
			break
		}
	}
	for _, g := range groups {
		p.stats.SegmentsNoSpace += len(g)
	}
	return nil
}

// spareBytes is the free space that a rewrite leaves for concurrent appends, or a quarter of the
// free space if that is less. Without the quarter, no segment of a small volume could be rewritten
// when the volume is almost full.
const spareBytes = 16 << 20

// fits reports whether the disk has enough space for a group's output in addition to its sources.
func (g rewriteGroup) fits(freeBytes func() (uint64, error)) (bool, error) {
	if freeBytes == nil {
		return true, nil
	}
	free, err := freeBytes()
	if err != nil {
		return false, fmt.Errorf("read free space: %w", err)
	}
	needed := int64(0)
	for _, plan := range g {
		needed += plan.liveBytes + plan.keys.SizeBytes()
	}
	spare := min(spareBytes, free/4)
	return needed == 0 || free > math.MaxInt64 || int64(free-spare) > needed, nil
}

// readBytes returns how many bytes the rewrite of the group is expected to read: the group's
// segments, and the sidecars from which the sidecars of the output are derived.
func (g rewriteGroup) readBytes() (bytes int64) {
	for _, plan := range g {
		bytes += plan.readBytes + plan.sidecarBytes(1)
	}
	return bytes
}

// rewrite replaces a group by new segments.
//
// A crash between the rewrites of two groups is harmless. The record that supersedes a removed
// record remains, whichever segment contains it. A tombstone is removed only if no older record of
// its key was in the log before the pass began. The state of an unfinished pass is not stored, so
// the next pass decides about all groups again.
func (p *pass) rewrite(group rewriteGroup) error {
	p.io.begin(group.readBytes())
	p.enter(Rewriting)
	p.beginGroup(group)
	r := p.newGroupRewrite(group)
	defer r.rebuilder.builder.Release()
	err := r.write()
	if err == nil {
		err = r.finish()
	}
	if err == nil {
		err = p.checkProducers(group)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite segments from %d on: %w", group[0].segment.Base(),
			err), r.writer.discard())
	}
	p.enter(Committing)
	sources := make([]*segment.Segment, len(group))
	for i, plan := range group {
		sources[i] = plan.segment
	}
	// Compute the sizes of sources and output before Replace. Afterwards the segments belong to the
	// log, which may close them at any time.
	before, after := sizeOf(sources), sizeOf(r.writer.segments())
	replaced := p.replacement(group, r.writer.segments())
	// Do not call discard after an error: Replace owns the output even if it fails.
	if err := p.job.Env.Replace(sources, r.writer.segments()); err != nil {
		return fmt.Errorf("replace segments from %d on: %w", group[0].segment.Base(), err)
	}
	p.io.end()
	if p.job.Env.Stage != nil {
		p.job.Env.Stage(replaced)
	}
	for _, out := range r.writer.outputs {
		if out.bound { // without a sidecar, the retention of the output's tombstones restarts
			p.replaced = append(p.replaced, out)
		}
	}
	p.stats.SegmentsRewritten += len(sources)
	p.stats.ReclaimedBytes += max(0, before-after)
	for _, plan := range group {
		plan.rewritten = true
		p.stats.RecordsRemoved += plan.removed
		p.stats.TombstonesRemoved += plan.tombstones
		p.stats.MarkersRemoved += plan.markers
		p.progress.ReclaimableBytes -= plan.deadBytes
	}
	return nil
}

func sizeOf(segments []*segment.Segment) (bytes int64) {
	for _, s := range segments {
		bytes += s.SizeBytes()
	}
	return bytes
}

// checkProducers compares the producers whose last batch is in the group with their state at the
// start of the pass (F12). They can differ only after a truncation: otherwise a producer's new last
// batch is above the bound, and therefore not in the group.
func (p *pass) checkProducers(group rewriteGroup) error {
	from, to := group[0].segment.Base(), group[len(group)-1].segment.NextOffset()
	for id, now := range p.job.Env.Producers() {
		if now.LastOffset < from || now.LastOffset >= to {
			continue
		}
		if then, known := p.job.Producers[id]; !known || then.LastOffset != now.LastOffset {
			return fmt.Errorf("%w: producer %d ends at offset %d", ErrProducersChanged, id,
				now.LastOffset)
		}
	}
	return nil
}

// groupRewrite rewrites one group: it reads the batches of the sources, rebuilds the batches that
// contain dead records, and writes the output segments. It changes neither the log nor the plans.
type groupRewrite struct {
	group     rewriteGroup
	policy    batchPolicy
	io        *ioMeter
	memory    *memory
	rebuilder batchRebuilder
	writer    segmentWriter
	stage     func(Step) // optional

	coldSources int // number of sources with less than half in the page cache
}

func (p *pass) newGroupRewrite(group rewriteGroup) *groupRewrite {
	rules := &p.job.Rules
	builder := record.NewBuilder(rules.Codec.Type, rules.Codec.Level)
	builder.CompressWith(p.job.Env.Compress)
	remaining := remainingTxns{plans: p.plans, group: group, bound: p.job.Bound,
		aborted: p.aborted, unknownKeys: p.unknownKeys}
	return &groupRewrite{
		group: group, policy: p.policy, io: &p.io, memory: &p.memory, stage: p.job.Env.Stage,
		rebuilder: batchRebuilder{
			rules: rules, now: p.job.Now, hasher: p.job.Hasher,
			batchBytesMax: p.job.Limits.BatchBytesMax, memory: &p.memory, stats: &p.stats,
			builder: builder,
		},
		writer: segmentWriter{
			env: &p.job.Env, segmentBytes: rules.SegmentBytes, io: &p.io,
			remains: remaining.includes,
		},
	}
}

// write writes and seals the output segments. If write fails, the caller must discard them.
func (r *groupRewrite) write() error {
	if err := r.writer.create(r.group[0].segment.Base()); err != nil {
		return err
	}
	for _, plan := range r.group {
		if err := r.writeSource(plan); err != nil {
			return err
		}
	}
	return r.writer.seal()
}

// writeSource writes the live records of one source.
func (r *groupRewrite) writeSource(plan *plan) error {
	r.rebuilder.begin(plan)
	r.writer.beginSource(plan)
	if plan.cache.cold() {
		r.coldSources++
	}
	reader := batchReader{plan: plan, policy: r.policy, io: r.io, memory: r.memory, stage: r.stage,
		visit: func(in readBatch, b record.Batch) error {
			out, ok, err := r.rebuilder.apply(in, b)
			if err != nil || !ok {
				return err
			}
			return r.writer.append(in, out)
		}}
	if err := reader.run(); err != nil {
		return err
	}
	r.writer.endPart(plan.records())
	return r.rebuilder.end()
}

// finish writes the sidecars of the sealed output and prepares it for the commit.
func (r *groupRewrite) finish() error {
	// Keep the modification time (I32): retention and maxLag use it as the age of the records in a
	// segment without timestamps.
	modified := r.group[len(r.group)-1].segment.ModTime()
	for _, out := range r.writer.outputs {
		if err := out.segment.SetModTime(modified); err != nil {
			return err
		}
		if err := r.writer.deriveSidecar(out); err != nil {
			return err
		}
	}
	if 2*r.coldSources <= len(r.group) {
		return nil
	}
	return uncache(r.writer.segments())
}

// remainingTxns determines which aborted transactions still need an entry in the transaction index
// after a group was replaced.
type remainingTxns struct {
	plans       []*plan // all segments of the pass
	group       rewriteGroup
	bound       int64
	aborted     abortedTxns
	unknownKeys bool
}

// includes reports whether the log may still contain batches of an aborted transaction after the
// group was replaced: in segments outside the group that this pass has not rewritten.
//
// A transaction without batches at the start of the pass must have no entry. This pass may remove
// the transaction's marker, by which a consumer recognizes the end of the transaction. With an
// entry but no marker, the consumer would skip everything that the producer commits later.
func (r *remainingTxns) includes(a segment.AbortedTxn) bool {
	if !r.unknownKeys && !r.aborted.endsAt(a.ProducerID, a.LastOffset) {
		return false
	}
	first, last := r.group[0].index, r.group[len(r.group)-1].index
	for i, plan := range r.plans {
		if plan.segment.Base() >= a.LastOffset || r.end(i) <= a.FirstOffset {
			continue
		}
		if !plan.rewritten && (plan.index < first || plan.index > last) {
			return true
		}
	}
	return false
}

// end returns the exclusive end offset of segment i. It is the base offset of the next segment,
// even if the last offsets below it have no records.
func (r *remainingTxns) end(i int) int64 {
	if i+1 < len(r.plans) {
		return r.plans[i+1].segment.Base()
	}
	return r.bound
}
