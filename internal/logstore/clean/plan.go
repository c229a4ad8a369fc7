package clean

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// plan is what a pass knows of one segment.
//
// A plan holds for the very bytes the sidecar was made for. Segments of a pass never change while
// it holds them (they are sealed, and only a swap replaces them), and what is rewritten is held
// against the sidecar batch by batch all the same: a bitmap applied to other bytes would drop live
// records.
type plan struct {
	number  int // in pass.plans
	segment *segment.Segment
	keys    *keys.Reader // nil: its keys are not known
	counts  keys.Counts
	before  *DeadFile // what an earlier pass found, if it still counts
	cache   cacheUse

	// ignored are the records that supersede nothing and are dead whatever their keys: those of
	// aborted transactions (I11), and those that DeleteRecords took. Ranges of ordinals, ascending
	// and apart; not a bitmap, because every slice needs those of all segments.
	ignored  []ordinals
	controls int // records of control batches: they have no key, and are not dead for that (I12)

	// By ordinal, and only while the plan's window is worked on.
	// superseded, without a key, ignored, or (from measure on) a tombstone or marker that goes
	dead bitmap
	// tombstones that are the latest of their keys, and markers of transactions without a batch
	final bitmap
	older bitmap // of final: another record of the key still stands below

	// holds is the lowest tombstone below which a record of its key, dead or not, stands here: it
	// must stay for that (F1). nowhere: there is none.
	holds place
	// supersededMs is since when the longest dead record here has been superseded: when the segment
	// that holds what supersedes it was begun. math.MaxInt64: there is none.
	supersededMs int64

	measure
	lonely []RemovableSet // what is lonely as of this pass, due ones that go excepted
	// the offset of the first tombstone below which something stands; -1: there is none
	waitsAt   int64
	chosen    bool
	rewritten bool
}

// blocking tells whether a record here keeps a tombstone in the log.
func (p *plan) blocking() bool { return p.holds != nowhere }

// ordinals is the range [from, to) of a segment's records.
type ordinals struct{ from, to uint32 }

// ignores tells whether a record is one of the ignored.
func (p *plan) ignores(ordinal uint32) bool {
	i, found := slices.BinarySearchFunc(p.ignored, ordinal,
		func(r ordinals, o uint32) int { return int(r.from) - int(o) })
	return found || i > 0 && ordinal < p.ignored[i-1].to
}

// ignore adds a range behind those that are there.
func (p *plan) ignore(from, to uint32) {
	if n := len(p.ignored); n > 0 && p.ignored[n-1].to == from {
		p.ignored[n-1].to = to
		return
	}
	p.ignored = append(p.ignored, ordinals{from, to})
}

// records is how many ordinals the segment has.
func (p *plan) records() uint32 { return uint32(p.counts.Records) }

// binding is what the segment's .dead file is bound to.
func (p *plan) binding() Binding {
	id := p.keys.Identity()
	return Binding{Base: id.Base, LogBytes: id.LogBytes, Identity: id.Digest, Records: p.records()}
}

// begun is when the segment got its first batch: by the batch's timestamp, unless that lies behind
// the file's own time, or there is none.
func (p *plan) begun() time.Time {
	modified := p.segment.ModTime()
	if ms, ok := p.segment.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}

// bitmapsBytes is the memory its bitmaps take at most.
func (p *plan) bitmapsBytes() int64 {
	sets := int64(1)
	if p.counts.Tombstones > 0 || p.controls > 0 {
		sets = 3
	}
	return sets * bitmapBytes(p.records())
}

// makeBitmaps makes room for what resolve finds.
func (p *plan) makeBitmaps(m *memory) {
	p.dead = newBitmap(p.records())
	if p.counts.Tombstones > 0 || p.controls > 0 {
		p.final, p.older = newBitmap(p.records()), newBitmap(p.records())
	}
	m.take(p.bitmapsBytes())
}

// freeBitmaps gives the memory back.
func (p *plan) freeBitmaps(m *memory) {
	if p.dead != nil {
		p.dead, p.final, p.older = nil, nil, nil
		m.give(p.bitmapsBytes())
	}
}
