package clean

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// settle ends a window: it writes the .dead files of the remaining and the new segments, and sums
// up the remaining garbage.
func (p *pass) settle(w window) error {
	s := settler{
		rules: &p.job.Rules, now: p.job.Now, bound: p.job.Bound,
		lineage: p.job.Lineage(p.job.Bound), saveDead: p.job.Env.SaveDead,
		unknownKeys: p.unknownKeys, memory: &p.memory, stats: &p.stats, followUp: &p.followUp,
		lowestBlocked: int(lowestBlocked(p.plans).segment),
	}
	if err := p.findEmptied(w); err != nil {
		return err
	}
	for _, plan := range p.plans[w.from:w.to] {
		if plan.rewritten {
			continue
		}
		if err := s.settleSource(plan); err != nil {
			return err
		}
	}
	for _, out := range p.replaced {
		if err := s.settleOutput(out); err != nil {
			return err
		}
	}
	p.replaced = nil
	return nil
}

// findEmptied finds the markers in the window whose transactions this pass has emptied, and
// requests the pass that removes these markers. Before the first rewrite there are no such markers.
func (p *pass) findEmptied(w window) error {
	controlRecords := 0
	for _, plan := range p.plans {
		controlRecords += plan.controlRecords
	}
	if p.stats.SegmentsRewritten == 0 || controlRecords == 0 || p.unknownKeys {
		return nil
	}
	return p.emptied.advance(p.plans, w, func(b keys.Batch) {
		if b.FirstOrdinal >= p.policy.removableEnd(b) {
			p.followUp.afterAppend()
			return
		}
		p.followUp.removable(b.LastOffset, p.job.Now.UnixMilli())
	})
}

// settler writes .dead files after the rewrites of a window.
//
// A tombstone becomes removable once every segment that contained an older record of its key has
// been rewritten. For each segment the pass stores only the lowest tombstone that its records block
// (plan.blocks). So after the rewrites it can determine only the lowest tombstone that is still
// blocked. Tombstones in lower segments have become removable. The next pass determines which
// tombstones in the segment of that tombstone and in higher segments are removable.
type settler struct {
	rules       *Rules
	now         time.Time
	bound       int64
	lineage     uint64
	saveDead    func(s *segment.Segment, content []byte) error
	unknownKeys bool // see pass.unknownKeys
	memory      *memory
	stats       *Stats // the settler updates GarbageBytes, GarbageRecords and OldestGarbage
	followUp    *followUp
	// lowestBlocked is the index of the segment that contains the lowest tombstone that is still
	// blocked.
	lowestBlocked int
}

// settleSource writes the .dead file of a segment that was not rewritten.
func (s *settler) settleSource(plan *plan) error {
	s.stats.GarbageBytes += plan.deadBytes
	s.stats.GarbageRecords += plan.removed
	s.scheduleGarbage(plan)
	if plan.keys == nil {
		return nil
	}
	d := &DeadFile{
		Binding: plan.binding(), DeadBytes: plan.deadBytes,
		DeadRecords: uint32(plan.dead.all()), Bitmap: plan.dead,
	}
	if plan.blocking() {
		d.BlockingSinceMs = plan.blockingSince(s.now).UnixMilli()
	}
	d.Removable = mergeRemovable(s.removable(plan))
	return s.save(plan.segment, d, plan.previous != nil)
}

// settleOutput writes the .dead file of an output segment. The file contains the tombstones and
// markers that were copied from the sources, by their ordinals in the output segment.
func (s *settler) settleOutput(out *outputSegment) error {
	var removable []RemovableSet
	base := uint32(0)
	for _, part := range out.parts {
		for _, set := range s.removable(part.plan) {
			if moved := part.renumber(set, base); moved.Count > 0 {
				removable = append(removable, moved)
			}
		}
		base += part.end - part.first - uint32(part.plan.dead.count(part.first, part.end))
	}
	d := &DeadFile{Binding: out.binding, Removable: mergeRemovable(removable)}
	return s.save(out.segment, d, false)
}

// removable returns a source's tombstones and markers that are removable after this pass. If this
// pass has removed a tombstone's older records, or the last batch of a marker's transaction, the
// retention begins at the start of the pass (X3).
func (s *settler) removable(source *plan) []RemovableSet {
	sets := s.addUnblocked(slices.Clone(source.removable), source.blockedSet(), source)
	if emptied := source.emptied; emptied.Count > 0 {
		emptied.SinceMs = s.now.UnixMilli()
		sets = append(sets, emptied)
	}
	return sets
}

// scheduleGarbage requests a pass for the time at which a segment's remaining garbage must be
// removed: when a record has been superseded for MaxLag, or has blocked a tombstone for
// blockingRetentions.
func (s *settler) scheduleGarbage(plan *plan) {
	if plan.removed > 0 && plan.supersededMs != math.MaxInt64 {
		superseded := time.UnixMilli(plan.supersededMs)
		if s.stats.OldestGarbage.IsZero() || superseded.Before(s.stats.OldestGarbage) {
			s.stats.OldestGarbage = superseded
		}
		if s.rules.MaxLag > 0 {
			s.followUp.at(superseded.Add(s.rules.MaxLag))
		}
	}
	if plan.blocking() && !s.unknownKeys {
		wait := max(blockingRetentions*s.rules.TombstoneRetention, followUpShortest)
		s.followUp.at(plan.blockingSince(s.now).Add(wait))
	}
}

// blockedSet returns the segment's tombstones that were blocked when the pass began.
func (p *plan) blockedSet() RemovableSet {
	return newRemovableSet(0, func(yield func(uint32) bool) {
		for ordinal := range p.latest.members {
			if p.blocked.has(ordinal) && !yield(ordinal) {
				return
			}
		}
	})
}

// addUnblocked appends a source's tombstones that were blocked when the pass began to sets, if this
// pass has removed the records that blocked them.
func (s *settler) addUnblocked(sets []RemovableSet, blocked RemovableSet,
	source *plan) []RemovableSet {
	switch {
	case blocked.Count == 0 || s.unknownKeys:
	case source.index >= s.lowestBlocked:
		s.followUp.undetermined = true
	default:
		blocked.SinceMs = s.now.UnixMilli()
		sets = append(sets, blocked)
		s.followUp.removable(source.blockedAt, blocked.SinceMs)
	}
	return sets
}

// save writes the .dead file of a segment. If the file would be empty, save removes an existing
// file instead.
func (s *settler) save(target *segment.Segment, d *DeadFile, exists bool) error {
	d.ComputedThrough, d.Lineage, d.PassedAtMs = s.bound, s.lineage, s.now.UnixMilli()
	var content []byte
	if d.DeadRecords > 0 || len(d.Removable) > 0 || d.BlockingSinceMs != 0 {
		content = d.Encode()
	} else if !exists {
		return nil
	}
	s.memory.touch(int64(len(content)))
	if s.saveDead == nil {
		return nil
	}
	if err := s.saveDead(target, content); err != nil {
		return fmt.Errorf("save .dead file of segment %d: %w", target.Base(), err)
	}
	return nil
}

// renumber converts a set of ordinals in the source to ordinals in the output segment, where the
// part begins at ordinal base. It omits removed records and records outside the part.
func (p sourcePart) renumber(set RemovableSet, base uint32) RemovableSet {
	return newRemovableSet(set.SinceMs, func(yield func(uint32) bool) {
		// removed is the number of removed records in [p.first, at).
		position, removed := p.first, uint32(0)
		for ordinal := range set.All {
			if ordinal < p.first || ordinal >= p.end || p.plan.dead.has(ordinal) {
				continue
			}
			removed += uint32(p.plan.dead.count(position, ordinal))
			position = ordinal
			if !yield(base + ordinal - p.first - removed) {
				return
			}
		}
	})
}

// lowestBlocked returns the position of the lowest tombstone that is blocked by a record in a
// segment that was not rewritten. If no tombstone is blocked, it returns noRecord.
func lowestBlocked(plans []*plan) recordPosition {
	lowest := noRecord
	for _, plan := range plans {
		if !plan.rewritten {
			lowest = lower(lowest, plan.blocks)
		}
	}
	return lowest
}

// errStop ends an iteration over batches early.
var errStop = errors.New("stop")

// tombstoneCleanOffset returns Stats.TombstoneCleanOffset after the rewrites of a pass: the base
// offset of the batch with the lowest blocked tombstone. The result is at most the base offset of
// the first segment without a sidecar or with an opaque batch, because such a segment may contain
// an older record of any key.
//
// The offset of the blocked tombstone is used, and not the offset of the record that blocks it. In
// a log in which keys are deleted all the time, old segments always contain a value of a recently
// deleted key, so that value's offset would hardly advance. The offset of the lowest blocked
// tombstone does advance, because a segment that blocks a tombstone is rewritten after
// blockingRetentions at the latest. So the result follows the log end at a distance of about two
// retentions.
func tombstoneCleanOffset(plans []*plan, bound int64) (int64, error) {
	offset := bound
	for _, plan := range plans {
		if plan.keys == nil || plan.counts.Opaque > 0 {
			offset = min(offset, plan.segment.Base())
		}
	}
	lowest := lowestBlocked(plans)
	if lowest == noRecord {
		return offset, nil
	}
	err := plans[lowest.segment].batches(func(b keys.Batch) error {
		if lowest.ordinal >= b.FirstOrdinal+uint32(b.Records) {
			return nil
		}
		offset = min(offset, b.BaseOffset)
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return 0, err
	}
	return offset, nil
}
