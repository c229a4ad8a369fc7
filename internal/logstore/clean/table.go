package clean

import (
	"math"
	"math/bits"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// recordPosition is the position of a record in the log: the index of its segment in pass.plans,
// and its ordinal in the segment.
type recordPosition struct {
	segment uint32
	ordinal uint32
}

// noRecord is above all positions.
var noRecord = recordPosition{math.MaxUint32, math.MaxUint32}

func (p recordPosition) below(other recordPosition) bool {
	return p.segment < other.segment || p.segment == other.segment && p.ordinal < other.ordinal
}

func lower(a, b recordPosition) recordPosition {
	if b.below(a) {
		return b
	}
	return a
}

// table maps the keys of one hash slice to their latest records. It is a hash table with open
// addressing and linear probing in one array of fixed size, which bounds the memory of a slice.
//
// The slot of a hash is proportional to its position in the slice, so slots are in hash order
// except for short probe sequences. A sidecar is sorted by hash, so reading it accesses the table
// from start to end, in the order in which the processor prefetches memory. Any other slot function
// would cause a cache miss per entry.
//
// The table does not contain keys: two keys are treated as equal if 96 bits of their keyed hashes
// are equal (F5). Segments are added from the newest to the oldest, so the first record of a key
// that is added is the latest one. Keys are never removed from the table, so no slot needs a
// deletion mark.
//
// Invariant: used <= usedMax < len(slots). So at least one slot is free, and find ends.
type table struct {
	slots   []slot
	used    int
	usedMax int // loadNumerator/loadDenominator of the slots
	first   uint64
	scale   uint64 // number of slots per hash, times 2^64
}

const (
	slotBytes       = 24
	loadNumerator   = 3 // 3/4, because a higher load makes probe sequences long
	loadDenominator = 4
	tableSlotsMin   = 64
)

// slot is one key of a table. A slot with segmentPlus1 == 0 is free, so the zero value is a free
// slot and every hash is a valid key.
type slot struct {
	high             uint64
	low              uint32
	ordinalTombstone uint32 // latest record's ordinal << 1, plus 1 if it is a tombstone
	segmentPlus1     uint32 // latest record's segment index plus 1
	// supersededBy is the segment of the oldest record of the key read so far. That record
	// supersedes the next older record of the key.
	supersededBy uint32
}

// newTable returns a table of about the given size.
func newTable(bytes int64) *table {
	slots := max(tableSlotsMin, int(bytes/slotBytes))
	return &table{slots: make([]slot, slots), usedMax: slots / loadDenominator * loadNumerator}
}

// bytes returns the memory size of the table.
func (t *table) bytes() int64 { return int64(len(t.slots)) * slotBytes }

// reset empties the table for another range of hashes.
func (t *table) reset(keyRange keys.Range) {
	clear(t.slots)
	t.used, t.first = 0, keyRange.First
	t.scale = uint64(len(t.slots))
	// A width of 0 means all 2^64 hashes, for which the scale is the number of slots.
	if width := keyRange.Last - keyRange.First + 1; width > t.scale {
		t.scale, _ = bits.Div64(t.scale, 0, width)
	}
}

// full reports whether the table has no space for another key.
func (t *table) full() bool { return t.used >= t.usedMax }

// find returns the slot of the hash, or a free slot for the hash if the table does not contain it.
// The hash must be in the range that was passed to reset.
func (t *table) find(h keys.Hash) *slot {
	i, _ := bits.Mul64(h.High-t.first, t.scale)
	for {
		s := &t.slots[i]
		if s.segmentPlus1 == 0 || s.high == h.High && s.low == h.Low {
			return s
		}
		if i++; i == uint64(len(t.slots)) {
			i = 0
		}
	}
}

// put stores the latest record of a key in a free slot.
func (t *table) put(s *slot, h keys.Hash, position recordPosition, tombstone bool) {
	*s = slot{high: h.High, low: h.Low, ordinalTombstone: position.ordinal << 1,
		segmentPlus1: position.segment + 1, supersededBy: position.segment}
	if tombstone {
		s.ordinalTombstone |= 1
	}
	t.used++
}

// occupied reports whether the slot contains a key.
func (s *slot) occupied() bool { return s.segmentPlus1 != 0 }

// latest returns the position of the latest record of the key.
func (s *slot) latest() recordPosition {
	return recordPosition{s.segmentPlus1 - 1, s.ordinalTombstone >> 1}
}

// tombstone reports whether the latest record of the key is a tombstone.
func (s *slot) tombstone() bool { return s.ordinalTombstone&1 == 1 }

// Sizes of tables, if the memory budget permits them. A table of tableBytesCached fits into the
// cache of one processor core, and therefore resolves an entry in a third of the time of a larger
// table (docs/internals/bench/cleaner.md). A larger table is better only if the log has so many
// segments that one hash slice would contain fewer than readEntriesMin entries per segment, which
// makes the reads too short.
const (
	tableBytesCached = 1 << 20
	readEntriesMin   = 256
)

// tableBytesBest returns the table size with which one worker is fastest.
func tableBytesBest(segments int, entries int64) int64 {
	best := max(tableBytesCached,
		int64(segments)*readEntriesMin*slotBytes*loadDenominator/loadNumerator)
	return min(best, 2*slotBytes*entries+tableSlotsMin*slotBytes)
}

// tableBudget returns the memory for all workers' tables: the best size for each worker, or the
// available memory if that is less, but at least tableSlotsMin slots per worker.
func tableBudget(segments int, entries int64, workers int, available int64) int64 {
	smallest := int64(workers) * tableSlotsMin * slotBytes
	return max(smallest, min(int64(workers)*tableBytesBest(segments, entries), available))
}

// hashSlices returns the number of hash slices with which the keys of each slice fit into a table.
// It leaves a margin of six standard deviations, because slices are random samples of the keys and
// differ in size. A slice that exceeds its table is split (see sliceResolver.resolve), so a wrong
// number costs time but no memory.
func hashSlices(entries, tableBytes int64) uint32 {
	room := float64(tableBytes/slotBytes) * loadNumerator / loadDenominator
	room = max(1, room-6*math.Sqrt(room))
	slices := uint64(math.Ceil(float64(entries) / room))
	if slices <= 1 {
		return 1
	}
	// With a power of two, slices end at bucket boundaries of the sidecars, so no bucket is read
	// twice.
	return uint32(1) << min(31, bits.Len64(slices-1))
}
