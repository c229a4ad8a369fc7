package logstore

import (
	"slices"
	"sync/atomic"
)

// durability tracks how much of a log is on disk. Its offsets are ordered:
//
//	sealedEnd <= checkpointed <= recoveryPoint <= synced <= log end
//
// Log.mu guards every field, and is held by the callers of every method; synced and sealedEnd are
// also read without it. All of them rise, and fall only by a truncation.
type durability struct {
	// synced is the end of the synced records.
	synced atomic.Int64
	// recoveryPoint is the end of the records that recovery need not scan: they are synced, and
	// their segments are sealed.
	recoveryPoint int64
	// checkpointed is the recovery point in the checkpoint on disk (Store.save).
	checkpointed int64
	// unsealed are rolled segments that the next flush seals, oldest first.
	unsealed []unsealed
	// sealedEnd is the end of the records that may be cleaned: min(checkpointed, base of
	// unsealed[0]). A roll stores it before it publishes the list with the rolled segment
	// (Compaction.limits).
	sealedEnd atomic.Int64
}

// unsealed is a rolled segment that is not sealed yet.
type unsealed struct {
	segment *handle
	end     int64 // base of the next segment
	// state is the producer snapshot as of end; nil after recovery, which no longer knows it.
	state []byte
}

// start sets the state that recovery found.
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

// syncedTo records that everything below end was synced. The recovery point follows if all rolled
// segments are sealed: recovery opens a segment below it without a scan.
func (d *durability) syncedTo(end int64) {
	d.synced.Store(max(d.synced.Load(), end))
	if len(d.unsealed) == 0 && end > d.recoveryPoint {
		d.recoveryPoint = end
		d.settle()
	}
}

// sealed records that a flush has sealed the first count unsealed segments, and synced everything
// below end.
func (d *durability) sealed(count int, end int64) {
	d.unsealed = slices.Clone(d.unsealed[count:])
	point := end
	if rest := d.unsealed; len(rest) > 0 && rest[0].end <= end {
		// The segment that was active when the flush began was rolled at an offset above end. This
		// segment is not sealed, so recovery has to scan it.
		point = rest[0].segment.Base()
	}
	// A concurrent commit may have synced more; it left the recovery point at the unsealed segment.
	d.recoveryPoint = max(d.recoveryPoint, point)
	d.syncedTo(end)
	d.settle()
}

// checkpointedTo records that a recovery point is on disk. The log may have been truncated since
// the point was read.
func (d *durability) checkpointedTo(recoveryPoint int64) {
	d.checkpointed = min(recoveryPoint, d.recoveryPoint)
	d.settle()
}

// rolled adds a segment that the next flush seals.
func (d *durability) rolled(u unsealed) {
	d.unsealed = append(d.unsealed, u)
	d.settle()
}

// forget removes the unsealed segments that match: they were deleted.
func (d *durability) forget(match func(unsealed) bool) {
	d.unsealed = slices.DeleteFunc(slices.Clone(d.unsealed), match)
	d.settle()
}

// truncate lowers all offsets to end, before the log end falls. Records above end are then not
// treated as synced, even if a running sync reports success.
func (d *durability) truncate(end int64) {
	d.synced.Store(min(d.synced.Load(), end))
	d.recoveryPoint = min(d.recoveryPoint, end)
	d.checkpointed = min(d.checkpointed, end)
	d.settle()
}

// restart sets the state of a log that restarts empty at an offset. Such a log is synced.
func (d *durability) restart(offset int64) {
	d.truncate(offset)
	d.unsealed, d.recoveryPoint = nil, offset
	d.synced.Store(offset)
	d.settle()
}
