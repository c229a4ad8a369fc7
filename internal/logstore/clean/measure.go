package clean

import (
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// measurement is the cost and the benefit of rewriting one segment. For a batch with both dead and
// live records, the dead bytes are an estimate: the dead records' share of the batch's uncompressed
// size, because a record in a compressed batch has no separate size. For other batches the dead
// bytes are exact.
type measurement struct {
	deadBytes  int64
	liveBytes  int64 // size - deadBytes
	readBytes  int64 // bytes that a rewrite reads: all except dead batches
	removed    int64 // number of records that a rewrite removes
	tombstones int64 // part of removed: tombstones whose retention has ended
	markers    int64 // part of removed: markers whose retention has ended
	dueBytes   int64 // bytes of due markers and of unneeded empty batches
	// keptBytes is the size of the markers and the batches without records that remain because of
	// active producers. The last of these producers expires at keptUntil.
	keptBytes  int64
	keptUntil  time.Time
	allDropped bool // true if a rewrite drops all batches, at least one, without reading any

	hasDueTombstone bool
	hasDeleted      bool // the segment contains records below the log start offset
	// overdue is set if a record has been superseded for longer than MaxLag, or has blocked a
	// tombstone for too long (F7).
	overdue bool
}

// measurer completes the bitmap of a segment's dead records and fills in the segment's measurement.
// It modifies only the plan and followUp.
type measurer struct {
	rules       *Rules
	now         time.Time
	progress    CleaningProgress
	policy      batchPolicy
	unknownKeys bool // see pass.unknownKeys
	memory      *memory
	followUp    *followUp
}

// measure marks the records of a segment that are dead for a reason other than being superseded,
// and measures the segment.
func (m *measurer) measure(plan *plan) error {
	plan.measurement = measurement{liveBytes: plan.segment.SizeBytes(),
		readBytes: plan.segment.SizeBytes()}
	if plan.keys == nil {
		return nil
	}
	for _, r := range plan.ignored {
		plan.dead.setRange(r.from, r.to)
	}
	if err := m.markUnkeyed(plan); err != nil {
		return err
	}
	if err := m.markDue(plan); err != nil {
		return err
	}
	if err := m.measureBatches(plan); err != nil {
		return err
	}
	m.setDeadlines(plan)
	return nil
}

// markUnkeyed marks the records without a key as dead, because they were appended before the topic
// was compacted (I13). Control records have no key either, but remain (I12).
func (m *measurer) markUnkeyed(plan *plan) error {
	if plan.counts.NullKeys == plan.controlRecords {
		return nil
	}
	records := plan.keys.Records()
	err := plan.batches(func(b keys.Batch) error {
		end := m.policy.removableEnd(b)
		for range b.Records {
			if !records.Next() {
				break
			}
			if records.Record().NullKey && b.Marker == keys.NoMarker && records.Ordinal() < end {
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

// markDue finds the removable tombstones and markers, and marks the due ones as dead: this pass
// removes them.
//
// A tombstone is due if all these conditions hold:
//
//   - It is removable: no older record of its key is in the log (X2). Otherwise the older value
//     would reappear (F1).
//   - An earlier pass found it to be removable, at least one retention ago (I16, I17, X3).
//   - The delete horizon of its batch, if any, has passed (F2).
//   - It has been removable on every replica for one retention (X1, X3).
//
// A marker is due under the same conditions; it is removable if no batch of its transaction is in
// the log (I20).
func (m *measurer) markDue(plan *plan) error {
	var previous []RemovableSet
	if plan.previous != nil {
		previous = plan.previous.Removable
	}
	if m.unknownKeys {
		plan.removable = previous
		return nil
	}
	if plan.latest == nil {
		return nil
	}
	fresh := plan.latest.without(plan.blocked)
	m.memory.touch(int64(8 * len(fresh)))
	plan.removable = stillRemovable(previous, fresh)
	merge := newMergeIterator(plan.removable)
	err := plan.batches(func(b keys.Batch) error {
		end := m.policy.removableEnd(b)
		for range merge.within(b.FirstOrdinal, end) {
			m.markIfDue(plan, b, merge.ordinal, merge.sinceMs)
		}
		if fresh.count(b.FirstOrdinal, end) > 0 {
			m.followUp.removable(b.LastOffset, m.now.UnixMilli())
		}
		if all := b.FirstOrdinal + uint32(b.Records); plan.latest.count(end, all) > 0 {
			m.followUp.afterAppend()
		}
		if plan.blockedAt < 0 &&
			plan.blocked.count(b.FirstOrdinal, b.FirstOrdinal+uint32(b.Records)) > 0 {
			plan.blockedAt = b.LastOffset
		}
		return nil
	})
	// Records that became removable since the previous pass are removed by a later pass, even if
	// the retention is 0 (I17).
	if set := newRemovableSet(m.now.UnixMilli(), fresh.members); set.Count > 0 {
		plan.removable = append(plan.removable, set)
	}
	return err
}

// markIfDue marks a removable tombstone or marker as dead if it is due. Otherwise it requests a
// pass for the time at which the tombstone or marker becomes due.
func (m *measurer) markIfDue(plan *plan, b keys.Batch, ordinal uint32, sinceMs int64) {
	if b.Marker == keys.MarkerOther || b.Marker != keys.NoMarker && m.policy.required(b) {
		return // required markers and other control records never become due
	}
	replicatedMs, ok := m.progress.Since(b.LastOffset)
	dueMs := max(max(sinceMs, replicatedMs)+m.rules.TombstoneRetention.Milliseconds(), b.HorizonMs)
	switch {
	case !ok:
		m.followUp.removable(b.LastOffset, sinceMs)
		return
	case dueMs > m.now.UnixMilli():
		m.followUp.at(time.UnixMilli(dueMs))
		return
	}
	plan.dead.set(ordinal)
	if b.Marker != keys.NoMarker {
		plan.markers++
		plan.dueBytes += int64(b.SizeBytes)
		return
	}
	plan.tombstones++
	plan.hasDueTombstone = true
}

// measureBatches computes a segment's live, dead and read bytes and its removed records from the
// actions of the batches.
func (m *measurer) measureBatches(plan *plan) error {
	plan.liveBytes, plan.readBytes, plan.allDropped = 0, 0, plan.counts.Batches > 0
	records := plan.keys.Records()
	err := plan.batches(func(b keys.Batch) error {
		action, dead := m.policy.action(plan, b)
		plan.removed += int64(dead)
		live := int64(b.SizeBytes)
		switch action {
		case dropBatch:
			if b.Records == 0 {
				plan.dueBytes += live
			}
			return nil
		case emptyBatch:
			live = emptyBatchBytes
			plan.readBytes += emptyBatchBytes
		case rebuildBatch:
			share, err := deadShare(records, plan, b)
			if err != nil {
				return err
			}
			live -= int64(math.Round(share * float64(b.SizeBytes-emptyBatchBytes)))
			plan.readBytes += int64(b.SizeBytes)
		default:
			plan.readBytes += int64(b.SizeBytes)
		}
		if dead == b.Records || b.Marker != keys.NoMarker {
			m.keepUntilExpiry(plan, b, live)
		}
		plan.allDropped = false
		plan.liveBytes += live
		return nil
	})
	if err != nil {
		return err
	}
	plan.deadBytes = plan.segment.SizeBytes() - plan.liveBytes
	if plan.removed == 0 && !plan.allDropped && !plan.hasMuchDue() {
		// A few batches that were already empty do not justify a rewrite, unless the segment
		// contains no other batches.
		plan.liveBytes, plan.deadBytes = plan.segment.SizeBytes(), 0
	}
	if plan.keptBytes > 0 && plan.keptBytes*dueShare >= plan.liveBytes {
		m.followUp.at(latest(plan.keptUntil, m.now.Add(followUpShortest)))
	}
	return nil
}

// keepUntilExpiry adds a batch without records, or a marker, that remains until its producer
// expires. If the bytes of these batches justify a rewrite, a pass is planned for that time.
func (m *measurer) keepUntilExpiry(plan *plan, b keys.Batch, bytes int64) {
	if moment, ok := m.policy.expires(b); ok {
		plan.keptBytes, plan.keptUntil = plan.keptBytes+bytes, latest(plan.keptUntil, moment)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// deadShare returns the dead records' share of a batch's uncompressed size, 0 to 1. It advances
// records to the end of the batch.
func deadShare(records *keys.Records, plan *plan, b keys.Batch) (float64, error) {
	var dead, all int64
	for end := b.FirstOrdinal + uint32(b.Records); records.Next(); {
		ordinal := records.Ordinal()
		if ordinal >= b.FirstOrdinal {
			// Add a length prefix of at least one byte.
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
	return 0, &sidecarError{plan.segment,
		"sidecar has fewer record entries than its batch entries state"}
}

// blockingRetentions is the number of retentions for which a dead record may block a tombstone.
// After that time its segment must be rewritten (F7).
const blockingRetentions = 2

// setDeadlines sets hasDeleted and overdue, which force a rewrite even if it frees little space.
func (m *measurer) setDeadlines(plan *plan) {
	plan.hasDeleted = plan.deleted > 0
	if m.rules.MaxLag > 0 && plan.supersededMs != math.MaxInt64 && plan.removed > 0 {
		deadline := time.UnixMilli(plan.supersededMs).Add(m.rules.MaxLag)
		plan.overdue = plan.overdue || !m.now.Before(deadline)
	}
	if plan.blocking() {
		deadline := plan.blockingSince(m.now).Add(blockingRetentions * m.rules.TombstoneRetention)
		plan.overdue = plan.overdue || !m.now.Before(deadline)
	}
}

// blockingSince returns the start time of the first pass that found that a record of the segment
// blocks a tombstone. If this pass is the first such pass, it returns now.
func (p *plan) blockingSince(now time.Time) time.Time {
	if p.previous != nil && p.previous.BlockingSinceMs != 0 {
		return time.UnixMilli(p.previous.BlockingSinceMs)
	}
	return now
}
