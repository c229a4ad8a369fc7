package clean

import "time"

// emptyBatchBytes is what is left of a batch all of whose records went: the header alone (reference 1.2).
const emptyBatchBytes = 61

// decide gives each batch its fate, and tells of each segment whether rewriting it pays.
func (p *pass) decide() error {
	for _, plan := range p.plans {
		var first uint32
		dropped := 0
		for i := range plan.batches {
			b := &plan.batches[i]
			if err := p.decideBatch(plan, b, first); err != nil {
				return err
			}
			if b.fate == drop {
				dropped++
			}
			first += b.records
		}
		// Batches that are empty already do not make a segment worth rewriting, unless nothing else is left of it.
		plan.pays = plan.pays || dropped > 0 && dropped == len(plan.batches)
	}
	return nil
}

// decideBatch decides on the batch whose records have the ordinals from first on. One that loses all its records and is
// retained is rebuilt like any other that loses some: without records the builder makes the empty batch of reference 1.2. A
// batch that was emptied by an earlier pass, or could not be read, is either kept or dropped, for there is nothing to
// rebuild.
func (p *pass) decideBatch(plan *plan, b *batchPlan, first uint32) error {
	if b.opaque || b.records == 0 {
		if !b.opaque && !b.retained { // I28
			b.fate = drop
		} else {
			plan.liveBytes += int64(b.sizeBytes)
		}
		return nil
	}
	stamped, err := p.decideTombstones(plan, b, first)
	if err != nil {
		return err
	}
	dead := plan.dead.count(first, first+b.records)
	switch {
	case dead == int(b.records) && !b.retained:
		b.fate = drop
	case dead > 0 || stamped:
		b.fate = rebuild
	}
	plan.pays = plan.pays || b.fate != keep
	plan.liveBytes += b.liveBytes(dead)
	plan.removed += int64(dead)
	return nil
}

// liveBytes estimates what a batch takes afterwards: of a rebuilt one, its share by records, because compressed records have no
// size of their own. Grouping and the reclaimable bytes go by it; output rolls by what is really written.
func (b *batchPlan) liveBytes(dead int) int64 {
	switch b.fate {
	case drop:
		return 0
	case rebuild:
		return emptyBatchBytes + int64(b.sizeBytes-emptyBatchBytes)*int64(int(b.records)-dead)/int64(b.records)
	}
	return int64(b.sizeBytes)
}

// decideTombstones decides on a batch's tombstones: which go, and which horizon those get that stay. It tells whether the
// batch must be stamped anew.
//
// A tombstone may go when three things hold: it is the last physical record of its key (X2, F1: else an older value would
// come back), an earlier pass stamped its horizon (I17), and the horizon has passed (I16).
//
// A batch has one horizon for all its tombstones. When one of them still had older values before this pass, the horizon
// begins anew for those beside it too: they go late, which is allowed, and none goes early.
func (p *pass) decideTombstones(plan *plan, b *batchPlan, first uint32) (stamp bool, err error) {
	// An older value may hide in a batch nobody could read: then no tombstone goes, and no horizon begins.
	blind := p.stats.OpaqueBatches > 0
	due := b.horizonMs != 0 && p.Now.UnixMilli() >= b.horizonMs && !blind
	// stays: a tombstone is left in the batch. waits: its horizon begins with this pass, as there is none, or it began too
	// early (F2).
	stays, waits := false, b.horizonMs == 0
	for i := first; i < first+b.records; i++ {
		if !plan.tombstone.has(i) || plan.dead.has(i) {
			continue
		}
		lonely := !plan.older.has(i)
		if lonely && due {
			if err := plan.dead.add(i, &p.memory); err != nil {
				return false, err
			}
			plan.tombstones++
			continue
		}
		stays, waits = true, waits || !lonely
	}
	switch {
	case blind: // no horizon is noted either: a pass made for tombstones would remove none
		return false, nil
	case !stays: // the batch, if it is rebuilt, has no tombstone to stamp a horizon for
		b.horizonMs = 0
		return false, nil
	case waits: // X3: what is older goes with this pass
		b.horizonMs = p.Now.Add(p.TombstoneRetention).UnixMilli()
	}
	p.noteHorizon(b.horizonMs)
	return waits, nil
}

// noteHorizon keeps the earliest horizon of the tombstones that stay.
func (p *pass) noteHorizon(ms int64) {
	at := time.UnixMilli(ms)
	if p.stats.NextHorizon.IsZero() || at.Before(p.stats.NextHorizon) {
		p.stats.NextHorizon = at
	}
}
