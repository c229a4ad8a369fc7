package clean

import (
	"errors"
	"fmt"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// settle ends a window: it writes the .dead files of the segments that remain and of the new
// segments, and adds up the remaining garbage.
func (p *pass) settle(w window) error {
	s := settler{
		rules: &p.job.Rules, now: p.job.Now, bound: p.job.Bound,
		lineage: p.job.Lineage(p.job.Bound), saveDead: p.job.Env.SaveDead,
		unknownKeys: p.unknownKeys, memory: &p.memory, stats: &p.stats, followUp: &p.followUp,
		lowestBlocked: int(lowestBlocked(p.plans).segment),
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

// settler writes .dead files after the rewrites of a window.
//
// A tombstone becomes removable once every segment that held an older record of its key has been
// rewritten. The pass knows the lowest tombstone that is still blocked (plan.blocks). Tombstones
// above it in its segment or in later ones may be removable too; the next pass determines which
// ones are.
type settler struct {
	rules       *Rules
	now         time.Time
	bound       int64
	lineage     uint64
	saveDead    func(s *segment.Segment, content []byte) error
	unknownKeys bool // see pass.unknownKeys
	memory      *memory
	stats       *Stats // GarbageBytes, GarbageRecords and OldestGarbage
	followUp    *followUp
	// lowestBlocked is the index of the segment of the lowest tombstone that is still blocked.
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
	d.Removable = mergeRemovable(s.addUnblocked(plan.removable, plan.blockedSet(), plan))
	return s.save(plan.segment, d, plan.previous != nil)
}

// settleOutput writes the .dead file of an output segment.
func (s *settler) settleOutput(out outputTombstones) error {
	removable := out.removable
	for _, blocked := range out.blocked {
		removable = s.addUnblocked(removable, blocked.RemovableSet, blocked.source)
	}
	d := &DeadFile{Binding: out.binding, Removable: mergeRemovable(removable)}
	return s.save(out.segment, d, false)
}

// scheduleGarbage requests the pass that the remaining garbage of a segment needs.
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

// blockedSet returns the tombstones that were blocked when the pass began.
func (p *plan) blockedSet() RemovableSet {
	return newRemovableSet(0, func(yield func(uint32) bool) {
		for ordinal := range p.latest.members {
			if p.blocked.has(ordinal) && !yield(ordinal) {
				return
			}
		}
	})
}

// addUnblocked adds to sets the tombstones of a source that were blocked, if the rewrites of this
// pass have removed the records that blocked them. The retention of these tombstones begins now
// (X3).
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

// save writes a .dead file, or removes the existing one if there is nothing to write.
func (s *settler) save(of *segment.Segment, d *DeadFile, exists bool) error {
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
	if err := s.saveDead(of, content); err != nil {
		return fmt.Errorf("save .dead file of segment %d: %w", of.Base(), err)
	}
	return nil
}

// outputTombstones are the tombstones that an output segment took over from its sources, under
// their new ordinals.
type outputTombstones struct {
	segment   *segment.Segment
	binding   Binding
	removable []RemovableSet
	blocked   []blockedTombstones
}

// blockedTombstones are tombstones of one source that were blocked when the pass began.
type blockedTombstones struct {
	RemovableSet
	source *plan
}

// tombstones returns the tombstones that the output segments took over. A segment without a sidecar
// can have no .dead file, so the retention of its tombstones starts again.
func (r *groupRewrite) tombstones() (all []outputTombstones) {
	for _, out := range r.writer.outputs {
		if !out.bound {
			continue
		}
		t := outputTombstones{segment: out.segment, binding: out.binding}
		base := uint32(0)
		for _, part := range out.parts {
			for _, set := range part.plan.removable {
				if moved := part.renumber(set, base); moved.Count > 0 {
					t.removable = append(t.removable, moved)
				}
			}
			if moved := part.renumber(part.plan.blockedSet(), base); moved.Count > 0 {
				t.blocked = append(t.blocked, blockedTombstones{moved, part.plan})
			}
			base += part.end - part.first - uint32(part.plan.dead.count(part.first, part.end))
		}
		all = append(all, t)
	}
	return all
}

// renumber converts a set of the source to the ordinals of the output, where the part begins at
// ordinal base. Removed records and records of other parts are left out.
func (p sourcePart) renumber(set RemovableSet, base uint32) RemovableSet {
	return newRemovableSet(set.SinceMs, func(yield func(uint32) bool) {
		at, removed := p.first, uint32(0) // removed: the number of removed records in [p.first, at)
		for ordinal := range set.All {
			if ordinal < p.first || ordinal >= p.end || p.plan.dead.has(ordinal) {
				continue
			}
			removed += uint32(p.plan.dead.count(at, ordinal))
			at = ordinal
			if !yield(base + ordinal - p.first - removed) {
				return
			}
		}
	})
}

// lowestBlocked is the lowest tombstone that is blocked by a record of a segment that was not
// rewritten; noRecord if there is none.
func lowestBlocked(plans []*plan) recordPosition {
	lowest := noRecord
	for _, plan := range plans {
		if !plan.rewritten {
			lowest = lower(lowest, plan.blocks)
		}
	}
	return lowest
}

// errStop ends an iteration early.
var errStop = errors.New("stop")

// tombstoneCleanOffset returns Stats.TombstoneCleanOffset after the rewrites of a pass: the offset
// of the lowest blocked tombstone, but at most the first segment with unknown keys, where any key
// may have an older record.
//
// The result is the offset of the blocked tombstone, and not the offset of the record that blocks
// it. In a log in which keys are deleted all the time, cold segments always contain the value of a
// recently deleted key. Each such segment is rewritten in time (blockingRetentions), and by then
// the blocked tombstones are newer ones. So the offset follows the end of the log at a distance of
// at most two retentions.
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
