package logstore

import (
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// durability tracks how much of a log is on disk. Its offsets are ordered:
//
//	sealedEnd <= checkpointed <= recoveryPoint <= synced <= log end
//
// Log.mu guards every field, and the caller of each method holds it. synced and sealedEnd are also
// read without the lock. The offsets fall only by a truncation.
type durability struct {
	// synced is the end of the synced records.
	synced atomic.Int64
	// recoveryPoint is the offset below which recovery need not scan: the records below it are
	// synced, and their segments are sealed.
	recoveryPoint int64
	// checkpointed is the recovery point in the checkpoint on disk (Store.save).
	checkpointed int64
	// unsealed are rolled segments that the next flush seals, oldest first.
	unsealed []unsealed
	// sealedEnd is the offset below which segments may be cleaned: min(checkpointed, base of
	// unsealed[0]). A roll updates it before it publishes the segment list with the rolled segment
	// (Compaction.limits).
	sealedEnd atomic.Int64
}

// unsealed is a rolled segment that is not sealed yet.
type unsealed struct {
	segment *segmentlist.Handle
	end     int64 // end offset, which is the base offset of the next segment
	// state is the encoded producer state as of end; nil for a segment that recovery found, because
	// recovery no longer has the producer state as of end.
	state []byte
}

// start sets the state that recovery found. rolled are the rolled segments that are not sealed.
func (d *durability) start(recoveryPoint, checkpointed int64, rolled []unsealed) {
	d.unsealed, d.recoveryPoint = rolled, recoveryPoint
	d.synced.Store(recoveryPoint)
	d.checkpointed = min(max(checkpointed, 0), recoveryPoint)
	d.settle()
}

// settle computes and stores sealedEnd after a change of checkpointed or unsealed.
func (d *durability) settle() {
	end := d.checkpointed
	if len(d.unsealed) > 0 {
		end = min(end, d.unsealed[0].segment.Base())
	}
	d.sealedEnd.Store(end)
}

// syncedTo notes that everything below end is synced. If all rolled segments are sealed, it also
// raises the recovery point to end. It must not do so while a segment is unsealed, because recovery
// opens a segment below the recovery point without a scan.
func (d *durability) syncedTo(end int64) {
	d.synced.Store(max(d.synced.Load(), end))
	if len(d.unsealed) == 0 && end > d.recoveryPoint {
		d.recoveryPoint = end
		d.settle()
	}
}

// sealed notes that a flush has sealed the first count segments of the list d.unsealed. The flush
// has also synced everything below the offset end.
func (d *durability) sealed(count int, end int64) {
	d.unsealed = slices.Clone(d.unsealed[count:])
	point := end
	if rest := d.unsealed; len(rest) > 0 && rest[0].end <= end {
		// The segment that was active when the flush began was rolled exactly at end, and is not
		// sealed. Recovery has to scan this segment, so the recovery point is at most its base
		// offset.
		point = rest[0].segment.Base()
	}
	// A concurrent commit may already have raised the recovery point above point.
	d.recoveryPoint = max(d.recoveryPoint, point)
	d.syncedTo(end)
	d.settle()
}

// checkpointedTo notes that a recovery point is on disk. A truncation may have lowered
// d.recoveryPoint after the given recovery point was read, so the lower of the two is stored.
func (d *durability) checkpointedTo(recoveryPoint int64) {
	d.checkpointed = min(recoveryPoint, d.recoveryPoint)
	d.settle()
}

// rolled adds a segment that the next flush seals.
func (d *durability) rolled(u unsealed) {
	d.unsealed = append(d.unsealed, u)
	d.settle()
}

// forget removes the unsealed segments that match, because their files were deleted.
func (d *durability) forget(match func(unsealed) bool) {
	d.unsealed = slices.DeleteFunc(slices.Clone(d.unsealed), match)
	d.settle()
}

// truncate lowers all offsets to at most the offset end. A truncation calls it before it lowers the
// log end. Records that are appended above this offset afterwards are then not treated as synced,
// even if a sync that began earlier reports success.
func (d *durability) truncate(end int64) {
	d.synced.Store(min(d.synced.Load(), end))
	d.recoveryPoint = min(d.recoveryPoint, end)
	d.checkpointed = min(d.checkpointed, end)
	d.settle()
}

// restart sets the state of a log that starts again, empty, at an offset. An empty log is synced.
func (d *durability) restart(offset int64) {
	d.truncate(offset)
	d.unsealed, d.recoveryPoint = nil, offset
	d.synced.Store(offset)
	d.settle()
}
