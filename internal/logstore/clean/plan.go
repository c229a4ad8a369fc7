package clean

import (
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// plan contains the facts that a pass knows about one segment, and the decisions of the pass about
// it.
//
// A plan is valid for exactly the bytes that the sidecar was built from, because a bitmap applied
// to other bytes would remove live records. The segments of a pass are sealed, and only a swap
// replaces them; batchReader nevertheless compares every batch that it reads with the sidecar.
type plan struct {
	index    int // in pass.plans
	segment  *segment.Segment
	keys     *keys.Reader // nil: the keys are unknown
	counts   keys.Counts
	previous *DeadFile // the result of an earlier pass, nil if none is valid
	cache    cacheUse

	// ignored are the records that supersede nothing and are dead whatever their keys: records of
	// aborted transactions (I11), and records below the log start. They are disjoint ascending
	// ranges rather than a bitmap, because every hash slice needs the ignored records of all
	// segments.
	ignored        []ordinalRange
	controlRecords int // records of control batches, which have no key and are not dead (I12)

	// The bitmaps are indexed by ordinal and exist only while the window of the plan is processed.

	// dead are the records that are superseded, have no key or are ignored and, after measure, the
	// tombstones and markers that are removed.
	dead bitmap
	// latest are the tombstones that are the latest record of their key, and the markers of
	// transactions without a batch.
	latest bitmap
	// blocked are the tombstones in latest that have an older record of their key below them.
	blocked bitmap

	// blocks is the lowest tombstone that a record of this segment blocks: the record has the same
	// key and is older, dead or not, so the tombstone must remain (F1). noRecord if no record of
	// this segment blocks a tombstone.
	blocks recordPosition
	// supersededMs is the earliest time at which a dead record of this segment was superseded,
	// which is taken to be the time of the first batch in the segment of the superseding record. It
	// is math.MaxInt64 if the segment has no dead record.
	supersededMs int64

	measurement
	removable []RemovableSet // without the records that this pass removes
	blockedAt int64          // offset of the first blocked tombstone, -1 if none
	chosen    bool
	rewritten bool
}

// blocking reports whether a record of the segment blocks a tombstone.
func (p *plan) blocking() bool { return p.blocks != noRecord }

// ordinalRange is the range [from, to) of the records of a segment.
type ordinalRange struct{ from, to uint32 }

// ignores reports whether the record is in an ignored range.
func (p *plan) ignores(ordinal uint32) bool {
	i, found := slices.BinarySearchFunc(p.ignored, ordinal,
		func(r ordinalRange, o uint32) int { return int(r.from) - int(o) })
	return found || i > 0 && ordinal < p.ignored[i-1].to
}

// ignore adds a range above the existing ones.
func (p *plan) ignore(from, to uint32) {
	if n := len(p.ignored); n > 0 && p.ignored[n-1].to == from {
		p.ignored[n-1].to = to
		return
	}
	p.ignored = append(p.ignored, ordinalRange{from, to})
}

// records is the number of ordinals of the segment.
func (p *plan) records() uint32 { return uint32(p.counts.Records) }

// binding returns the Binding of the segment's .dead file.
func (p *plan) binding() Binding {
	id := p.keys.Identity()
	return Binding{Base: id.Base, LogBytes: id.LogBytes, Identity: id.Digest, Records: p.records()}
}

// firstAppend is the time at which the segment got its first batch: the timestamp of that batch, or
// the modification time of the file if that is earlier or the batch has no timestamp.
func (p *plan) firstAppend() time.Time {
	modified := p.segment.ModTime()
	if ms, ok := p.segment.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}

// newestMs is the largest timestamp of the segment, or the modification time of the file if that is
// earlier or the segment has no timestamp.
func (p *plan) newestMs() int64 {
	modified := p.segment.ModTime().UnixMilli()
	if ms, _ := p.segment.MaxTimestamp(); ms > 0 {
		return min(ms, modified)
	}
	return modified
}

// bitmapsBytes is the memory of the bitmaps.
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

// batches calls visit for each batch entry of the segment's sidecar; for none if there is no
// sidecar.
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

// sidecarFault converts an error of the sidecar's reader: a sidecar that is damaged or belongs to
// other data becomes a sidecarError, so that Run rebuilds it. Other errors, such as the end of a
// context, are returned as they are.
func (p *plan) sidecarFault(err error) error {
	if errors.Is(err, keys.ErrCorrupt) || errors.Is(err, keys.ErrStale) ||
		errors.Is(err, keys.ErrMismatch) {
		return &sidecarError{segment: p.segment, reason: err.Error()}
	}
	return err
}
