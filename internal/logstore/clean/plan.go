package clean

import "heartwood.dev/heartwood/internal/logstore/segment"

// plan is what a pass knows of one segment: resolve fills the bitmaps, decide the fates.
//
// A plan holds for the very bytes that resolve read: rewrite walks the segment a second time and counts records and batches
// alike. Cleaned segments never change while a pass holds them (they are sealed, and only a swap replaces them), and copy checks
// each batch's size, the checksum and the number of batches all the same: a bitmap applied to other bytes would drop live records.
type plan struct {
	segment *segment.Segment

	// By ordinal: a record's number within its segment. Records of opaque batches have none.
	dead      bitmap // superseded, without a key, or (from decide on) a tombstone that goes
	tombstone bitmap // dead ones too
	older     bitmap // tombstones below which another record of their key still stands

	batches []batchPlan

	// What decide computes.
	pays       bool  // rewriting it removes a record or starts a tombstone's horizon
	liveBytes  int64 // estimate of what stays
	removed    int64 // records that go
	tombstones int64 // of removed: tombstones past their horizon
}

// batchPlan is what a pass knows of one batch.
type batchPlan struct {
	horizonMs int64  // the horizon it shall have; 0: none
	sizeBytes int32  // as resolve read it: copy holds what it reads against it
	records   uint32 // ordinals of the batch: none if it is opaque
	fate      fate
	opaque    bool
	retained  bool // must stay, empty if need be: I25, I29
}

// batchPlanBytes is the size of a batchPlan in memory; a test holds it against unsafe.Sizeof.
const batchPlanBytes = 24

// fate is what becomes of a batch.
type fate uint8

const (
	keep    fate = iota // as it is, byte for byte: cheaper than decoding, and nothing of the producer's framing changes
	rebuild             // without its dead records, or with a horizon
	drop                // offsets and all: readers take the gap for what it is (I43)
)

// add appends a batch, and reserves the memory for it; it fails with ErrOverBudget. It doubles by hand, because how much
// append takes is not promised, and memory must know before.
func (p *plan) add(b batchPlan, m *memory) error {
	if len(p.batches) == cap(p.batches) {
		wanted := max(16, 2*cap(p.batches))
		if err := m.reserve(int64(wanted) * batchPlanBytes); err != nil {
			return err
		}
		larger := make([]batchPlan, len(p.batches), wanted)
		copy(larger, p.batches)
		m.release(int64(cap(p.batches)) * batchPlanBytes)
		p.batches = larger
	}
	p.batches = append(p.batches, b)
	return nil
}

// reclaimableBytes is what rewriting the segment frees, as far as one can tell before.
func (p *plan) reclaimableBytes() int64 { return p.segment.SizeBytes() - p.liveBytes }

// free gives the plan's memory back, when its segment is replaced: the budget is for what a pass still needs.
func (p *plan) free(m *memory) {
	m.release(int64(cap(p.batches))*batchPlanBytes + int64(8*(cap(p.dead)+cap(p.tombstone)+cap(p.older))))
	*p = plan{segment: p.segment}
}
