package clean

import (
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// plan contains the results and decisions of a pass for one segment.
//
// A plan is valid only for the bytes from which the segment's sidecar was built. Applied to other
// bytes, its bitmaps would remove live records. The segments of a pass do not change, because they
// are sealed and only a swap replaces them. Nevertheless batchReader compares every batch that it
// reads with the sidecar.
type plan struct {
	index    int // index of this plan in pass.plans
	segment  *segment.Segment
	keys     *keys.Reader // nil if the segment has no sidecar, and so its keys are unknown
	counts   keys.Counts
	previous *DeadFile // .dead file of an earlier pass; nil if there is no valid one
	cache    cacheUse

	// ignored contains the records that supersede no record and are dead regardless of their keys:
	// records of aborted transactions (I11), and records below the log start offset. They are stored
	// as disjoint ascending ranges, which need less memory than a bitmap. Memory matters here because
	// every hash slice needs the ignored records of all segments, not only of the segments in its
	// window.
	ignored []ordinalRange
	deleted int64 // number of ignored records below the log start offset
	// controlRecords is the number of records in control batches. The sidecar lists them as records
	// without a key, but they are not dead (I12).
	controlRecords int

	// The bitmaps are indexed by ordinal: the number of a record in its segment, from 0. They exist
	// only while the plan's window is being processed.

	// dead contains the records that are superseded, have no key, or are ignored. measure adds the
	// tombstones and markers whose retention has ended.
	dead bitmap
	// latest contains the tombstones that are the latest record of their key, and the markers of
	// transactions that have no remaining batch in the log.
	latest bitmap
	// blocked contains the tombstones in latest whose key has an older record in the log.
	blocked bitmap

	// blocks is the position of the lowest tombstone that a record of this segment blocks, or
	// noRecord if no record of this segment blocks a tombstone. An older record of a key blocks a
	// tombstone that is the latest record of the key: while the older record is in the log, dead or
	// not, the tombstone must remain (F1).
	blocks recordPosition
	// supersededMs is the earliest time at which a record of this segment was superseded;
	// math.MaxInt64 if no record was superseded. The log does not store this time. Instead, the
	// time of the first append to the segment with the superseding record is used.
	supersededMs int64

	measurement
	removable []RemovableSet // includes records that this pass removes, which are also in dead
	// emptied contains the markers of transactions whose last batch this pass has removed.
	emptied RemovableSet
	// blockedAt is the last offset of the first batch with a blocked tombstone; -1 if no tombstone
	// is blocked.
	blockedAt int64
	chosen    bool
	rewritten bool
}

// blocking reports whether a record of the segment blocks a tombstone.
func (p *plan) blocking() bool { return p.blocks != noRecord }

// ordinalRange is the range [from, to) of ordinals in a segment.
type ordinalRange struct{ from, to uint32 }

// ignores reports whether the record is in an ignored range.
func (p *plan) ignores(ordinal uint32) bool {
	i, found := slices.BinarySearchFunc(p.ignored, ordinal,
		func(r ordinalRange, o uint32) int { return int(r.from) - int(o) })
	return found || i > 0 && ordinal < p.ignored[i-1].to
}

// ignore adds a range above the existing ranges.
func (p *plan) ignore(from, to uint32) {
	if n := len(p.ignored); n > 0 && p.ignored[n-1].to == from {
		p.ignored[n-1].to = to
		return
	}
	p.ignored = append(p.ignored, ordinalRange{from, to})
}

// records returns the segment's number of records. Ordinals are below it.
func (p *plan) records() uint32 { return uint32(p.counts.Records) }

// binding returns the Binding of the segment's .dead file.
func (p *plan) binding() Binding {
	id := p.keys.Identity()
	return Binding{Base: id.Base, LogBytes: id.LogBytes, Identity: id.Digest, Records: p.records()}
}

// firstAppend returns the time of the first append to the segment: the timestamp of the first
// batch, or the modification time of the file if that is earlier or the batch has no timestamp.
func (p *plan) firstAppend() time.Time {
	modified := p.segment.ModTime()
	if ms, ok := p.segment.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}

// newestMs returns the largest timestamp in the segment, or the modification time of the file if
// that is earlier or the segment contains no timestamp.
func (p *plan) newestMs() int64 {
	modified := p.segment.ModTime().UnixMilli()
	if ms, _ := p.segment.MaxTimestamp(); ms > 0 {
		return min(ms, modified)
	}
	return modified
}

// bitmapsBytes returns the memory size of the plan's bitmaps.
func (p *plan) bitmapsBytes() int64 {
	bitmaps := int64(1)
	if p.hasTombstonesOrMarkers() {
		bitmaps = 3
	}
	return bitmaps * bitmapBytes(p.records())
}

func (p *plan) hasTombstonesOrMarkers() bool {
	return p.counts.Tombstones > 0 || p.controlRecords > 0
}

// makeBitmaps allocates empty bitmaps.
func (p *plan) makeBitmaps(m *memory) {
	p.dead = newBitmap(p.records())
	if p.hasTombstonesOrMarkers() {
		p.latest, p.blocked = newBitmap(p.records()), newBitmap(p.records())
	}
	m.acquire(p.bitmapsBytes())
}

func (p *plan) freeBitmaps(m *memory) {
	if p.dead != nil {
		p.dead, p.latest, p.blocked = nil, nil, nil
		m.release(p.bitmapsBytes())
	}
}

// batches calls visit for each batch entry of the segment's sidecar. It does nothing if the segment
// has no sidecar.
func (p *plan) batches(visit func(keys.Batch) error) error {
	if p.keys == nil {
		return nil
	}
	it := p.keys.Batches()
	for it.Next() {
		if err := visit(it.Batch()); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return p.sidecarFault(err)
	}
	return nil
}

// sidecarFault converts an error of the sidecar's reader. If the sidecar is damaged or belongs to
// other data, the error becomes a sidecarError, and Run rebuilds the sidecar. Other errors, such as
// the end of a context, are returned unchanged.
func (p *plan) sidecarFault(err error) error {
	if errors.Is(err, keys.ErrCorrupt) || errors.Is(err, keys.ErrStale) ||
		errors.Is(err, keys.ErrMismatch) {
		return &sidecarError{segment: p.segment, reason: err.Error()}
	}
	return err
}
