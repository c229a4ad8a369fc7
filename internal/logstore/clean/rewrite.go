package clean

import (
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// rewriteAll rewrites the groups in ascending order. Groups that do not fit the free space are
// retried once at the end, when the other groups have freed some. Groups that still do not fit are
// split into their chosen segments, which are rewritten one by one: on a full disk it is more
// important to free bytes than to reduce the number of segments (F16).
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

// spareBytes is the free space that a rewrite leaves for concurrent appends.
const spareBytes = 16 << 20

// fits reports whether the disk has room for the output of a group next to its sources.
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
	return needed == 0 || free > math.MaxInt64 || int64(free) > needed+spareBytes, nil
}

// rewrite replaces a group by new segments.
//
// A crash between two groups is harmless. A removed record is superseded by a record that remains,
// in whatever segment. A tombstone is removed only if no older record of its key was left before
// the pass began. The next pass decides again about the groups that this pass did not reach; no
// state of an unfinished pass is persisted.
func (p *pass) rewrite(group rewriteGroup) error {
	p.enter(Rewriting)
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
	// Both sizes are taken before Replace: afterwards the segments belong to the log, which may
	// close them at any time.
	before, after := sizeOf(sources), sizeOf(r.writer.segments())
	// Do not call discard after an error: Replace owns the output even if it fails.
	if err := p.job.Env.Replace(sources, r.writer.segments()); err != nil {
		return fmt.Errorf("replace segments from %d on: %w", group[0].segment.Base(), err)
	}
	p.replaced = append(p.replaced, r.tombstones()...)
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
// start of the pass (F12). A difference can only be the result of a truncation, because the last
// batch of a producer otherwise only moves up.
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

// groupRewrite rewrites one group: it reads the batches of the sources, rebuilds those that lose
// records, and writes the output segments. It changes nothing in the log and in the plans.
type groupRewrite struct {
	group     rewriteGroup
	policy    batchPolicy
	io        *ioMeter
	memory    *memory
	rebuilder batchRebuilder
	writer    segmentWriter

	coldSources int // number of sources that were not in the page cache
}

func (p *pass) newGroupRewrite(group rewriteGroup) *groupRewrite {
	rules := &p.job.Rules
	builder := record.NewBuilder(rules.Codec.Type, rules.Codec.Level)
	builder.CompressWith(p.job.Env.Compress)
	remaining := remainingTxns{plans: p.plans, group: group, bound: p.job.Bound,
		aborted: p.aborted, unknownKeys: p.unknownKeys}
	return &groupRewrite{
		group: group, policy: p.policy, io: &p.io, memory: &p.memory,
		rebuilder: batchRebuilder{
			rules: rules, now: p.job.Now, hasher: p.job.Hasher,
			batchBytesMax: p.job.Limits.BatchBytesMax, memory: &p.memory, stats: &p.stats,
			builder: builder,
		},
		writer: segmentWriter{
			env: &p.job.Env, segmentBytes: rules.SegmentBytes, io: &p.io,
			remains: remaining.contain,
		},
	}
}

// write writes and seals the output segments. After an error the caller discards them.
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
	reader := batchReader{plan: plan, policy: r.policy, io: r.io, memory: r.memory,
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
	// Set the modification time (I32), which retention and lag use for a segment without
	// timestamps.
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
// once a group is replaced.
type remainingTxns struct {
	plans       []*plan // all segments of the pass
	group       rewriteGroup
	bound       int64
	aborted     abortedTxns
	unknownKeys bool
}

// contain reports whether batches of an aborted transaction remain in the log when the group is
// replaced. They can remain in segments that are not rewritten, or not yet.
//
// A transaction without batches at the start of the pass needs no entry, whatever segments its
// range covers. Its marker may be removed in this very pass, and the marker is where a consumer
// recognizes the end of the transaction: an entry without a marker would make the consumer skip
// everything that the producer commits later.
func (r *remainingTxns) contain(a segment.AbortedTxn) bool {
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

// end is the end offset of segment i, exclusive: the base of the next segment, because the offsets
// in between have no records.
func (r *remainingTxns) end(i int) int64 {
	if i+1 < len(r.plans) {
		return r.plans[i+1].segment.Base()
	}
	return r.bound
}
