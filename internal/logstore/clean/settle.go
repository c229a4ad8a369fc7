package clean

import (
	"fmt"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// settle ends a window: it tells which tombstones have become lonely by what was rewritten, writes
// the .dead files, and adds up what is left.
//
// A tombstone below which something stood is lonely once all segments that hold such records were
// rewritten. What is known is the lowest tombstone that is held by what was left (plan.holds); of
// those above it in its segment or a later one, some may be lonely too, which the next pass finds.
func (p *pass) settle(w window) error {
	limit := int(p.lowestHeld().segment)
	for _, plan := range p.plans[w.from:w.to] {
		if plan.rewritten {
			continue
		}
		p.stats.GarbageBytes += plan.deadBytes
		p.stats.GarbageRecords += plan.removed
		p.noteLeft(plan)
		if plan.keys == nil {
			continue
		}
		found := &DeadFile{
			Binding: plan.binding(), DeadBytes: plan.deadBytes,
			DeadRecords: uint32(plan.dead.all()), Bitmap: plan.dead, Removable: plan.lonely,
		}
		if plan.blocking() {
			found.BlockingSinceMs = p.blockingSince(plan).UnixMilli()
		}
		found.Removable = settleGroups(p.begin(found.Removable, plan.waiting(), plan, limit))
		if err := p.save(plan.segment, found, plan.before != nil); err != nil {
			return err
		}
	}
	for _, c := range p.replaced {
		lonely := c.lonely
		for _, waiting := range c.waiting {
			lonely = p.begin(lonely, waiting.RemovableSet, waiting.source, limit)
		}
		if err := p.save(c.segment, &DeadFile{Binding: c.binding, Removable: settleGroups(lonely)},
			false); err != nil {
			return err
		}
	}
	p.replaced = nil
	return nil
}

// noteLeft notes when a segment that was left alone wants a pass.
func (p *pass) noteLeft(plan *plan) {
	if plan.removed > 0 && plan.supersededMs != math.MaxInt64 {
		superseded := time.UnixMilli(plan.supersededMs)
		if p.stats.OldestGarbage.IsZero() || superseded.Before(p.stats.OldestGarbage) {
			p.stats.OldestGarbage = superseded
		}
		if p.Rules.MaxLag > 0 {
			p.noteNext(superseded.Add(p.Rules.MaxLag))
		}
	}
	if plan.blocking() && !p.blind {
		p.noteNext(p.blockingSince(plan).Add(max(blockingMax*p.Rules.TombstoneRetention,
			shortestWait)))
	}
}

// waiting are the tombstones below which something stood when the pass began.
func (p *plan) waiting() RemovableSet {
	return newGroup(0, func(yield func(uint32) bool) {
		for ordinal := range p.final.members {
			if p.older.has(ordinal) && !yield(ordinal) {
				return
			}
		}
	})
}

// begin adds to the groups those of a source that waited, if that lies below limit, so that nothing
// is left below them: their time begins now (X3).
func (p *pass) begin(groups []RemovableSet, waited RemovableSet, source *plan, limit int) []RemovableSet {
	switch {
	case waited.Count == 0 || p.blind:
	case source.number >= limit:
		p.waiting = true
	default:
		waited.SinceMs = p.Now.UnixMilli()
		groups = append(groups, waited)
		p.noteLonely(source.waitsAt, waited.SinceMs)
	}
	return groups
}

// save writes a .dead file; where there is nothing to say, it takes away the one that is there.
func (p *pass) save(s *segment.Segment, found *DeadFile, there bool) error {
	found.ComputedThrough, found.Lineage, found.PassedAtMs = p.Bound, p.Lineage(p.Bound),
		p.Now.UnixMilli()
	var content []byte
	if found.DeadRecords > 0 || len(found.Removable) > 0 || found.BlockingSinceMs != 0 {
		content = found.Encode()
	} else if !there {
		return nil
	}
	p.memory.touch(int64(len(content)))
	if p.Env.SaveDead == nil {
		return nil
	}
	if err := p.Env.SaveDead(s, content); err != nil {
		return fmt.Errorf("save what is dead in segment %d: %w", s.Base(), err)
	}
	return nil
}

// carried is what an output segment takes over of its sources' tombstones, under the ordinals they
// have now.
type carried struct {
	segment *segment.Segment
	binding Binding
	lonely  []RemovableSet
	waiting []carriedGroup
}

// carriedGroup is tombstones that came from one source.
type carriedGroup struct {
	RemovableSet
	source *plan
}

// carry returns what the output's segments take over. Without a sidecar nothing can be bound to
// them, and the clocks begin anew.
func (o *output) carry() (all []carried) {
	for _, piece := range o.pieces {
		if !piece.bound {
			continue
		}
		c := carried{segment: piece.segment, binding: piece.binding}
		base := uint32(0)
		for _, part := range piece.parts {
			for _, g := range part.plan.lonely {
				if moved := part.renumber(g, base); moved.Count > 0 {
					c.lonely = append(c.lonely, moved)
				}
			}
			if moved := part.renumber(part.plan.waiting(), base); moved.Count > 0 {
				c.waiting = append(c.waiting, carriedGroup{moved, part.plan})
			}
			base += part.end - part.first - uint32(part.plan.dead.count(part.first, part.end))
		}
		all = append(all, c)
	}
	return all
}

// renumber returns a group of the source as it is in the output, where the part begins at ordinal
// base: without what went, and without what is in other parts.
func (p part) renumber(g RemovableSet, base uint32) RemovableSet {
	return newGroup(g.SinceMs, func(yield func(uint32) bool) {
		at, gone := p.first, uint32(0) // gone: of [p.first, at)
		for ordinal := range g.All {
			if ordinal < p.first || ordinal >= p.end || p.plan.dead.has(ordinal) {
				continue
			}
			gone += uint32(p.plan.dead.count(at, ordinal))
			at = ordinal
			if !yield(base + ordinal - p.first - gone) {
				return
			}
		}
	})
}

// addAborted writes the transaction index of a piece: the entries of its markers, as far as aborted
// batches are left of them (I22). What is left is in segments that are not rewritten, or not yet.
func (o *output) addAborted(piece *piece) error {
	end := piece.segment.NextOffset()
	var failed error
	for _, part := range piece.parts {
		_, err := part.plan.segment.Aborted(piece.segment.Base(), math.MaxInt64,
			func(a segment.AbortedTxn) {
				if failed == nil && a.LastOffset < end && o.left(a) {
					failed = piece.segment.AddAborted(a)
				}
			})
		if err != nil {
			return err
		}
	}
	return failed
}

// left tells whether batches of an aborted transaction stay in the log when the group is replaced.
//
// One of which none was there when the pass began has no entry any more, whatever segments its
// range lies over. Its marker may go in this very pass, and it is by the marker that a consumer
// knows the transaction's end: told of the transaction without it, he would leave out all that the
// producer commits behind.
func (o *output) left(a segment.AbortedTxn) bool {
	if !o.blind && !o.aborted.endsAt(a.ProducerID, a.LastOffset) {
		return false
	}
	for i, plan := range o.plans {
		if plan.segment.Base() >= a.LastOffset || o.end(i) <= a.FirstOffset {
			continue
		}
		if !plan.rewritten && (plan.number < o.group[0].number ||
			plan.number > o.group[len(o.group)-1].number) {
			return true
		}
	}
	return false
}
