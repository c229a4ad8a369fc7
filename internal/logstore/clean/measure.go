package clean

import (
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// emptyBatchBytes is what is left of a batch all of whose records went: the header alone (reference
// 1.2).
const emptyBatchBytes = 61

// measure is the account of one segment: what rewriting it costs and frees. Dead batches are
// counted exactly, of the others the share of their dead records by raw size, because compressed
// records have no size of their own.
type measure struct {
	deadBytes  int64
	liveBytes  int64 // size - deadBytes
	readBytes  int64 // that a rewrite reads: all but dead batches
	removed    int64 // records that go
	tombstones int64 // of removed, past their horizon
	markers    int64 // of removed
	dueMarkers int64 // bytes of them
	onlyEmpty  bool  // every batch goes: there is nothing to read it for
	due        bool  // a tombstone is due here
	deleted    bool  // records below the log start are here
	// a record here has been superseded for longer than MaxLag, or has kept a tombstone for too
	// long (F7)
	overdue bool
}

// fate is what becomes of a batch.
type fate uint8

const (
	// as it is, byte for byte: cheaper than decoding, and nothing of the producer's framing changes
	keep    fate = iota
	rebuild      // without its dead records
	empty        // its header only, for what others take from it (I25, I29)
	drop         // offsets and all: readers take the gap for what it is (I43)
)

// fateOf decides on a batch. It decides the same whenever it is asked, once measure is done with
// the plan.
func (p *pass) fateOf(plan *plan, b keys.Batch) (fate, int) {
	retained := p.retained(b)
	if b.Opaque {
		return keep, 0
	}
	if b.Records == 0 {
		if retained {
			return keep, 0
		}
		return drop, 0 // I28
	}
	dead := plan.dead.count(b.FirstOrdinal, b.FirstOrdinal+uint32(b.Records))
	switch {
	case dead == 0:
		return keep, 0
	case dead < b.Records:
		return rebuild, dead
	case retained:
		return empty, dead
	}
	return drop, dead
}

// measure marks in a plan what goes besides superseded records, and makes its account.
func (p *pass) measure(plan *plan) error {
	plan.measure = measure{liveBytes: plan.segment.SizeBytes(), readBytes: plan.segment.SizeBytes()}
	if plan.keys == nil {
		return nil
	}
	for _, r := range plan.ignored {
		plan.dead.setRange(r.from, r.to)
	}
	if err := p.dropUnkeyed(plan); err != nil {
		return err
	}
	if err := p.dropDue(plan); err != nil {
		return err
	}
	return p.account(plan)
}

// dropUnkeyed marks records without a key: they come from a time when the topic was not compacted
// (I13). The records of control batches have none either, and stay (I12).
func (p *pass) dropUnkeyed(plan *plan) error {
	if plan.counts.NullKeys == plan.controls {
		return nil
	}
	records := plan.keys.Records()
	err := plan.batches(func(b keys.Batch) error {
		for range b.Records {
			if !records.Next() {
				break
			}
			if records.Record().NullKey && b.Marker == keys.NoMarker {
				plan.dead.set(records.Ordinal())
			}
		}
		return nil
	})
	if err == nil && records.Err() != nil {
		err = plan.sidecarFault(records.Err())
	}
	return err
}

// dropDue finds out since when tombstones and markers have been lonely, and marks those that may
// go.
//
// A tombstone may go when four things hold: it is the last physical record of its key (X2, F1: else
// an older value would come back); an earlier pass found it so, and the retention has passed since
// (I16, I17, X3); a horizon stamped on its batch, by whomever, has passed (F2); and it has been so
// in every replica for the retention (X1, X3). A marker likewise, once no batch of its transaction
// is left (I20).
func (p *pass) dropDue(plan *plan) error {
	var before []RemovableSet
	if plan.before != nil {
		before = plan.before.Removable
	}
	if p.blind {
		plan.lonely = before
		return nil
	}
	if plan.final == nil {
		return nil
	}
	fresh := plan.final.without(plan.older)
	p.memory.touch(int64(8 * len(fresh)))
	plan.lonely = stillLonely(before, fresh)
	clock := newClock(plan.lonely)
	err := plan.batches(func(b keys.Batch) error {
		for range clock.within(b.FirstOrdinal, b.FirstOrdinal+uint32(b.Records)) {
			p.decideLonely(plan, b, clock.ordinal, clock.sinceMs)
		}
		end := b.FirstOrdinal + uint32(b.Records)
		if fresh.count(b.FirstOrdinal, end) > 0 {
			p.noteLonely(b.LastOffset, p.Now.UnixMilli())
		}
		if plan.waitsAt < 0 && plan.older.count(b.FirstOrdinal, end) > 0 {
			plan.waitsAt = b.LastOffset
		}
		return nil
	})
	// What became lonely since then goes in a later pass, whatever the retention (I17).
	if begins := newGroup(p.Now.UnixMilli(), fresh.members); begins.Count > 0 {
		plan.lonely = append(plan.lonely, begins)
	}
	return err
}

// noteLonely notes when the log wants a pass for what lies at an offset and has been lonely since
// then: a retention after it is so in all replicas, or once they have told.
func (p *pass) noteLonely(offset, sinceMs int64) {
	agreedMs, ok := p.CleaningProgress.Since(offset)
	if !ok {
		p.waiting = true // for the other replicas: a later pass will know more
		if p.stats.AwaitsReplicasAt < 0 || offset < p.stats.AwaitsReplicasAt {
			p.stats.AwaitsReplicasAt = offset
		}
		return
	}
	p.noteNext(time.UnixMilli(max(sinceMs, agreedMs)).Add(p.Rules.TombstoneRetention))
}

// decideLonely decides on one lonely tombstone or marker.
func (p *pass) decideLonely(plan *plan, b keys.Batch, ordinal uint32, sinceMs int64) {
	if b.Marker == keys.MarkerOther || b.Marker != keys.NoMarker && p.retained(b) {
		return // nothing to wait for that time alone would bring
	}
	agreedMs, ok := p.CleaningProgress.Since(b.LastOffset)
	dueMs := max(max(sinceMs, agreedMs)+p.Rules.TombstoneRetention.Milliseconds(), b.HorizonMs)
	switch {
	case !ok:
		p.noteLonely(b.LastOffset, sinceMs)
		return
	case dueMs > p.Now.UnixMilli():
		p.noteNext(time.UnixMilli(dueMs))
		return
	}
	plan.dead.set(ordinal)
	if b.Marker != keys.NoMarker {
		plan.markers++
		plan.dueMarkers += int64(b.SizeBytes)
		return
	}
	plan.tombstones++
	plan.due = true
}

// account adds up the batches.
func (p *pass) account(plan *plan) error {
	plan.liveBytes, plan.readBytes, plan.onlyEmpty = 0, 0, plan.counts.Batches > 0
	records := plan.keys.Records()
	err := plan.batches(func(b keys.Batch) error {
		fate, dead := p.fateOf(plan, b)
		plan.removed += int64(dead)
		live := int64(b.SizeBytes)
		switch fate {
		case drop:
			return nil
		case empty:
			live = emptyBatchBytes
			plan.readBytes += emptyBatchBytes
		case rebuild:
			share, err := deadShare(records, plan, b)
			if err != nil {
				return err
			}
			live -= int64(math.Round(share * float64(b.SizeBytes-emptyBatchBytes)))
			plan.readBytes += int64(b.SizeBytes)
		default:
			plan.readBytes += int64(b.SizeBytes)
		}
		plan.onlyEmpty = false
		plan.liveBytes += live
		return nil
	})
	if err != nil {
		return err
	}
	plan.deadBytes = plan.segment.SizeBytes() - plan.liveBytes
	if plan.removed == 0 && !plan.onlyEmpty {
		// Batches that are empty already do not make a segment worth rewriting, unless nothing else
		// is left of it.
		plan.liveBytes, plan.deadBytes = plan.segment.SizeBytes(), 0
	}
	p.promise(plan)
	return nil
}

// deadShare is how much of a batch's records goes, by their size before compression: 0 to 1.
// records goes on to the batch's own.
func deadShare(records *keys.Records, plan *plan, b keys.Batch) (float64, error) {
	var dead, all int64
	for end := b.FirstOrdinal + uint32(b.Records); records.Next(); {
		ordinal := records.Ordinal()
		if ordinal >= b.FirstOrdinal {
			// and at least one byte that tells its length
			bytes := int64(records.Record().BodyBytes) + 1
			all += bytes
			if plan.dead.has(ordinal) {
				dead += bytes
			}
		}
		if ordinal+1 == end {
			return float64(dead) / float64(all), nil
		}
	}
	if err := records.Err(); err != nil {
		return 0, plan.sidecarFault(err)
	}
	return 0, &sidecarError{segment: plan.segment, reason: "it has fewer records than its batches"}
}

// blockingMax is how many retentions a dead record may keep a tombstone in the log (F7).
const blockingMax = 2

// promise notes what is due in a segment whatever its benefit, and when the rest will be.
func (p *pass) promise(plan *plan) {
	plan.deleted = plan.segment.Base() < p.LogStart && plan.removed > 0
	if p.Rules.MaxLag > 0 && plan.supersededMs != math.MaxInt64 && plan.removed > 0 {
		at := time.UnixMilli(plan.supersededMs).Add(p.Rules.MaxLag)
		plan.overdue = plan.overdue || !p.Now.Before(at)
	}
	if plan.blocking() {
		plan.overdue = plan.overdue ||
			!p.Now.Before(p.blockingSince(plan).Add(blockingMax*p.Rules.TombstoneRetention))
	}
}

// blockingSince is since when a record of the segment has kept a tombstone in the log.
func (p *pass) blockingSince(plan *plan) time.Time {
	if plan.before != nil && plan.before.BlockingSinceMs != 0 {
		return time.UnixMilli(plan.before.BlockingSinceMs)
	}
	return p.Now
}
