package clean

import (
	"math"
	"math/bits"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// place is where a record stands: the ordinal of the record in its segment, and which of the pass's
// segments that is.
type place struct {
	segment uint32
	ordinal uint32
}

// nowhere is behind all places.
var nowhere = place{math.MaxUint32, math.MaxUint32}

// before tells whether a place is below another in the log.
func (p place) before(other place) bool {
	return p.segment < other.segment || p.segment == other.segment && p.ordinal < other.ordinal
}

// first is the lower of two places.
func first(a, b place) place {
	if b.before(a) {
		return b
	}
	return a
}

// table maps the keys of one slice of the hashes to their latest records. It is open addressing
// with linear probing in one array whose size never changes: that is the memory of a slice.
//
// The slot of a hash is its place in the slice, in proportion. So the slots are in the order of the
// hashes, but for what probing moves by a few, and a sidecar, which is sorted, walks through the
// table from its beginning to its end: the memory is read in the order in which a processor fetches
// it ahead, where any other slot function has it miss its caches at each entry.
//
// Keys themselves are not kept: two keys are one when 96 bits of keyed hash are equal (reference
// F5). Segments are entered from the newest to the oldest, so what is found is the latest, nothing
// is ever replaced or taken out, and there are no gravestones.
//
// Invariant: used <= most < len(slots), so find meets a free slot.
type table struct {
	slots []slot
	used  int
	most  int // loadNumerator/loadDenominator of the slots
	first uint64
	scale uint64 // slots per hash, times 2^64
}

const (
	slotBytes       = 24
	loadNumerator   = 3 // of 4: above it probes grow long
	loadDenominator = 4
	tableSlotsMin   = 64
)

// slot is free when holder is 0: the zero value needs no initialising, and no hash is special.
type slot struct {
	high    uint64
	low     uint32
	ordinal uint32 // of the latest record, times 2; the lowest bit: it is a tombstone
	holder  uint32 // its segment + 1
	// the segment of the oldest of the key's records seen so far: what supersedes the next one to
	// come
	next uint32
}

// newTable returns a table of about so many bytes.
func newTable(bytes int64) *table {
	slots := max(tableSlotsMin, int(bytes/slotBytes))
	return &table{slots: make([]slot, slots), most: slots / loadDenominator * loadNumerator}
}

// bytes is the memory the table takes.
func (t *table) bytes() int64 { return int64(len(t.slots)) * slotBytes }

// reset empties the table for another range of hashes.
func (t *table) reset(of keys.Range) {
	clear(t.slots)
	t.used, t.first = 0, of.First
	t.scale = uint64(len(t.slots))
	// 0: all 2^64 of them, whose scale is the number of slots
	if width := of.Last - of.First + 1; width > t.scale {
		t.scale, _ = bits.Div64(t.scale, 0, width)
	}
}

// full tells whether another key would be one too many.
func (t *table) full() bool { return t.used >= t.most }

// find returns the slot of the hash, or the free one where it belongs. The hash must lie in the
// range of the last reset.
func (t *table) find(h keys.Hash) *slot {
	i, _ := bits.Mul64(h.High-t.first, t.scale)
	for {
		s := &t.slots[i]
		if s.holder == 0 || s.high == h.High && s.low == h.Low {
			return s
		}
		if i++; i == uint64(len(t.slots)) {
			i = 0
		}
	}
}

// put takes a free slot for the latest record of a key.
func (t *table) put(s *slot, h keys.Hash, at place, tombstone bool) {
	*s = slot{high: h.High, low: h.Low, ordinal: at.ordinal << 1, holder: at.segment + 1,
		next: at.segment}
	if tombstone {
		s.ordinal |= 1
	}
	t.used++
}

// known tells whether the slot holds a key.
func (s *slot) known() bool { return s.holder != 0 }

// latest is where the key's latest record stands.
func (s *slot) latest() place { return place{s.holder - 1, s.ordinal >> 1} }

// tombstone tells whether that is one.
func (s *slot) tombstone() bool { return s.ordinal&1 == 1 }
