package clean

import (
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// rewriteAll rewrites the groups, in ascending order. Those for which the disk has no room are
// tried once more at the end, when the others have freed some, and then each of their segments by
// itself: on a full disk what is freed counts, not how many segments there are (F16).
func (p *pass) rewriteAll(groups [][]*plan) error {
	for round := range 2 {
		var left [][]*plan
		for _, g := range groups {
			fits, err := p.fits(g)
			if err != nil {
				return err
			}
			if !fits {
				left = append(left, apart(g)...)
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

// apart makes a group of each segment that was chosen for itself.
func apart(group []*plan) (all [][]*plan) {
	for i, plan := range group {
		if plan.chosen {
			all = append(all, group[i:i+1])
		}
	}
	return all
}

// spareBytes is what a rewrite leaves free on the disk beside what it needs itself: appends go on
// meanwhile.
const spareBytes = 16 << 20

// fits tells whether the disk has room for what a group becomes, before what it was is gone.
func (p *pass) fits(group []*plan) (bool, error) {
	if p.Env.FreeBytes == nil {
		return true, nil
	}
	free, err := p.Env.FreeBytes()
	if err != nil {
		return false, fmt.Errorf("ask for free space: %w", err)
	}
	needed := int64(0)
	for _, plan := range group {
		needed += plan.liveBytes + plan.keys.SizeBytes()
	}
	return needed == 0 || free > math.MaxInt64 || int64(free) > needed+spareBytes, nil
}

// rewrite makes new segments of a group and puts them in its place.
//
// A crash between two groups is harmless: what goes is superseded by a record that stays, wherever
// that is, and a tombstone goes only if nothing is left below it before the pass began. What a pass
// did not come to is done by the next: nothing of it is remembered.
func (p *pass) rewrite(group []*plan) error {
	p.enter(Rewriting)
	out := newOutput(p, group)
	defer out.builder.Release()
	err := out.write()
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite segments from %d on: %w", group[0].segment.Base(),
			err), out.discard())
	}
	p.enter(Committing)
	sources := make([]*segment.Segment, len(group))
	for i, plan := range group {
		sources[i] = plan.segment
	}
	// Both are taken before: from Replace on the segments are the log's, which may close them at
	// any time.
	before, after := sizeOf(sources), sizeOf(out.segments())
	// no discard: Replace owns the output, also now
	if err := p.Env.Replace(sources, out.segments()); err != nil {
		return fmt.Errorf("replace segments from %d on: %w", group[0].segment.Base(), err)
	}
	p.replaced = append(p.replaced, out.carry()...)
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

// sizeOf is the segments' size together.
func sizeOf(segments []*segment.Segment) (bytes int64) {
	for _, s := range segments {
		bytes += s.SizeBytes()
	}
	return bytes
}

// checkProducers holds the batches that go against the producers as they are now (F12): one whose
// last batch is among them must have been known when the pass began. It can only have become so by
// a truncation, for a producer's last batch never moves down.
func (p *pass) checkProducers(group []*plan) error {
	from, to := group[0].segment.Base(), group[len(group)-1].segment.NextOffset()
	for id, now := range p.Env.Producers() {
		if now.LastOffset < from || now.LastOffset >= to {
			continue
		}
		if then, known := p.Producers[id]; !known || then.LastOffset != now.LastOffset {
			return fmt.Errorf("%w: producer %d ends at offset %d", ErrProducersChanged, id, now.LastOffset)
		}
	}
	return nil
}

// fingerprint adds up entries, in whatever order: those of the records that were decoded must be
// those of the sidecar that decided on them (F6). Hashes are keyed, so nobody can make two sets of
// entries that add up to the same.
type fingerprint struct {
	sum   uint64
	count int64
}

// add counts an entry.
func (f *fingerprint) add(h keys.Hash, ordinal uint32, tombstone bool) {
	x := h.High ^ (uint64(h.Low)<<32|uint64(ordinal))*0x9e3779b97f4a7c15
	if tombstone {
		x++
	}
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	f.sum += x ^ x>>32
	f.count++
}

// verify holds what was decoded of a segment against its sidecar.
func (p *pass) verify(plan *plan, decoded bitmap, found fingerprint) error {
	if decoded == nil {
		return nil
	}
	var known fingerprint
	it := plan.keys.Entries(keys.Everything)
	for it.Next() {
		if e := it.Entry(); decoded.has(e.Ordinal) {
			known.add(e.Hash, e.Ordinal, e.Tombstone)
		}
	}
	if err := it.Err(); err != nil {
		return plan.sidecarFault(err)
	}
	if known != found {
		return &sidecarError{plan.segment,
			fmt.Sprintf("%d keys of the batches that were decoded are not the %d it has",
				found.count, known.count)}
	}
	return nil
}
