package clean

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// ErrDeadFile is wrapped by every error about bytes that are not a valid .dead file. Callers
// continue without the file.
var ErrDeadFile = errors.New("invalid .dead file")

// Constants of the layout of a .dead file (docs/internals/format/dead.md).
const (
	deadMagic        = "HWDEAD\x00\x01"
	deadHeaderBytes  = 88
	setHeaderBytes   = 16
	removableSetsMax = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Binding identifies the bytes that a .dead file was computed from. Files with equal bindings use
// the same ordinals.
type Binding struct {
	Base     int64
	LogBytes int64
	Identity uint64 // identity of the .log and .keys files: see keys.Reader
	Records  uint32 // number of records, and therefore of ordinals
}

// DeadFile is the content of a segment's .dead file: the segment's dead records and removable
// tombstones, as of one pass.
//
// Invariants: every ordinal in Bitmap and Removable is below Binding.Records. Removable contains at
// most 16 sets, which are disjoint and ascend by SinceMs.
type DeadFile struct {
	Binding
	// ComputedThrough is the bound of the pass that computed the file. The pass has read all
	// records below the bound.
	ComputedThrough int64
	// Lineage identifies the history of the leader epochs below ComputedThrough. The file is
	// invalid in a log with another lineage (F4).
	Lineage    uint64
	PassedAtMs int64
	// BlockingSinceMs is the time since which a dead record of the segment has blocked a tombstone
	// (F7); 0 if no dead record blocks a tombstone.
	BlockingSinceMs int64
	DeadBytes       int64
	DeadRecords     uint32

	Bitmap    bitmap
	Removable []RemovableSet
}

// RemovableSet is a set of the tombstones and markers of a segment that became removable in the
// same pass.
type RemovableSet struct {
	SinceMs  int64
	Count    uint32
	ordinals []byte // LEB128 differences of adjacent ordinals: a quarter of a []uint32
}

// newRemovableSet returns the set of the given ordinals, which must ascend.
func newRemovableSet(sinceMs int64, ordinals func(yield func(uint32) bool)) RemovableSet {
	set := RemovableSet{SinceMs: sinceMs}
	last := uint32(0)
	for ordinal := range ordinals {
		set.ordinals = binary.AppendUvarint(set.ordinals, uint64(ordinal-last))
		last = ordinal
		set.Count++
	}
	return set
}

// All yields the ordinals in ascending order. It does not validate the encoded bytes, because
// newRemovableSet creates valid bytes and the decoder checks them.
func (s RemovableSet) All(yield func(uint32) bool) {
	last := uint32(0)
	for rest := s.ordinals; len(rest) > 0; {
		difference, size := binary.Uvarint(rest)
		last += uint32(difference)
		if !yield(last) {
			return
		}
		rest = rest[size:]
	}
}

// check validates a set that was read from a file: it fails if newRemovableSet cannot have returned
// the set.
func (s RemovableSet) check(records uint32) error {
	last, count := int64(-1), uint32(0)
	for rest := s.ordinals; len(rest) > 0; count++ {
		difference, size := binary.Uvarint(rest)
		if size <= 0 || difference > uint64(records) || count > 0 && difference == 0 {
			return fmt.Errorf("%w: ordinal %d of a set", ErrDeadFile, count)
		}
		last = max(last, 0) + int64(difference)
		if last >= int64(records) {
			return fmt.Errorf("%w: ordinal %d of %d records", ErrDeadFile, last, records)
		}
		rest = rest[size:]
	}
	if count != s.Count || count == 0 {
		return fmt.Errorf("%w: set has %d ordinals, its header says %d", ErrDeadFile, count,
			s.Count)
	}
	return nil
}

// DeadFileBytesMax returns the maximum size of the .dead file of a segment with that many records.
// A reader checks the file's size before it allocates memory.
func DeadFileBytesMax(records uint32) int64 {
	return deadHeaderBytes + int64(records)/8 + 8 + removableSetsMax*setHeaderBytes +
		int64(records)*binary.MaxVarintLen32 + 4
}

// Encode returns the content of the .dead file.
func (d *DeadFile) Encode() []byte {
	words := d.Bitmap
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	out := make([]byte, deadHeaderBytes,
		deadHeaderBytes+8*len(words)+setHeaderBytes*len(d.Removable)+4)
	copy(out, deadMagic)
	for i, field := range []uint64{
		uint64(d.Base), uint64(d.LogBytes), d.Identity, uint64(d.ComputedThrough), d.Lineage,
		uint64(d.PassedAtMs),
		uint64(d.BlockingSinceMs), uint64(d.DeadBytes),
		uint64(d.Records)<<32 | uint64(d.DeadRecords),
		uint64(len(d.Removable))<<32 | uint64(len(words)),
	} {
		binary.BigEndian.PutUint64(out[8+8*i:], field)
	}
	for _, word := range words {
		out = binary.BigEndian.AppendUint64(out, word)
	}
	for _, set := range d.Removable {
		out = binary.BigEndian.AppendUint64(out, uint64(set.SinceMs))
		out = binary.BigEndian.AppendUint32(out, set.Count)
		out = binary.BigEndian.AppendUint32(out, uint32(len(set.ordinals)))
		out = append(out, set.ordinals...)
	}
	return appendChecksum(out)
}

func appendChecksum(out []byte) []byte {
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// DecodeDeadFile decodes a .dead file. It fails with an error that wraps ErrDeadFile for every
// content that Encode cannot have returned. The sets of the result alias content.
func DecodeDeadFile(content []byte) (*DeadFile, error) {
	size := len(content) - 4
	if size < deadHeaderBytes || string(content[:8]) != deadMagic {
		return nil, fmt.Errorf("%w: wrong magic or too short", ErrDeadFile)
	}
	if crc32.Checksum(content[:size], castagnoli) != binary.BigEndian.Uint32(content[size:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrDeadFile)
	}
	field := func(index int) uint64 { return binary.BigEndian.Uint64(content[index:]) }
	half := func(index int) uint32 { return binary.BigEndian.Uint32(content[index:]) }
	d := &DeadFile{
		Binding: Binding{Base: int64(field(8)), LogBytes: int64(field(16)),
			Identity: field(24), Records: half(72)},
		ComputedThrough: int64(field(32)), Lineage: field(40), PassedAtMs: int64(field(48)),
		BlockingSinceMs: int64(field(56)),
		DeadBytes:       int64(field(64)), DeadRecords: half(76),
	}
	rest, err := d.decodeBitmap(content[deadHeaderBytes:size], half(84))
	if err != nil {
		return nil, err
	}
	if err := d.decodeSets(rest, half(80)); err != nil {
		return nil, err
	}
	return d, nil
}

// decodeBitmap decodes the bitmap and returns the bytes after it.
func (d *DeadFile) decodeBitmap(rest []byte, words uint32) ([]byte, error) {
	if uint64(words)*8 > uint64(len(rest)) || uint64(words) > (uint64(d.Records)+63)/64 {
		return nil, fmt.Errorf("%w: bitmap of %d words for %d records in %d bytes", ErrDeadFile,
			words, d.Records, len(rest))
	}
	d.Bitmap = make(bitmap, words)
	for i := range d.Bitmap {
		d.Bitmap[i] = binary.BigEndian.Uint64(rest[8*i:])
	}
	if n := d.Bitmap.count(0, d.Records); n != int(d.DeadRecords) || d.Bitmap.all() != n {
		return nil, fmt.Errorf("%w: bitmap marks %d dead records of %d, the header says %d",
			ErrDeadFile,
			d.Bitmap.all(), d.Records, d.DeadRecords)
	}
	return rest[8*words:], nil
}

// decodeSets decodes the removable sets at the end of the file.
func (d *DeadFile) decodeSets(rest []byte, sets uint32) error {
	if sets > removableSetsMax {
		return fmt.Errorf("%w: %d sets", ErrDeadFile, sets)
	}
	for range sets {
		if len(rest) < setHeaderBytes {
			return fmt.Errorf("%w: truncated in a set", ErrDeadFile)
		}
		set := RemovableSet{SinceMs: int64(binary.BigEndian.Uint64(rest)),
			Count: binary.BigEndian.Uint32(rest[8:])}
		size := uint64(binary.BigEndian.Uint32(rest[12:]))
		if rest = rest[setHeaderBytes:]; size > uint64(len(rest)) {
			return fmt.Errorf("%w: set of %d bytes in %d", ErrDeadFile, size, len(rest))
		}
		set.ordinals, rest = rest[:size:size], rest[size:]
		if err := set.check(d.Records); err != nil {
			return err
		}
		if n := len(d.Removable); n > 0 && d.Removable[n-1].SinceMs >= set.SinceMs {
			return fmt.Errorf("%w: sets do not ascend", ErrDeadFile)
		}
		d.Removable = append(d.Removable, set)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the end", ErrDeadFile, len(rest))
	}
	return nil
}

// stillRemovable returns an earlier pass's sets, restricted to the records that are still
// removable. Only a truncation can make a removable record blocked again. The argument removable
// contains all records that this pass found to be removable. stillRemovable deletes the returned
// records from it, which leaves the records that became removable since the earlier pass (X3).
func stillRemovable(previous []RemovableSet, removable bitmap) (still []RemovableSet) {
	for _, set := range previous {
		kept := newRemovableSet(set.SinceMs, func(yield func(uint32) bool) {
			for ordinal := range set.All {
				if removable.has(ordinal) && !yield(ordinal) {
					return
				}
			}
		})
		for ordinal := range kept.All {
			removable.clear(ordinal)
		}
		if kept.Count > 0 {
			still = append(still, kept)
		}
	}
	return still
}

// mergeRemovable sorts the sets by time and merges sets with the same time. While more than
// removableSetsMax sets are left, it merges the two oldest sets and keeps the later time: a
// tombstone may be removed too late, but never too early.
func mergeRemovable(sets []RemovableSet) []RemovableSet {
	slices.SortStableFunc(sets,
		func(a, b RemovableSet) int { return cmp.Compare(a.SinceMs, b.SinceMs) })
	for i := 0; i+1 < len(sets); {
		if sets[i].SinceMs == sets[i+1].SinceMs || i == 0 && len(sets) > removableSetsMax {
			sets[i] = union(sets[i], sets[i+1])
			sets = slices.Delete(sets, i+1, i+2)
			continue
		}
		i++
	}
	return sets
}

// union returns the ordinals of both sets, with the later of the two times.
func union(a, b RemovableSet) RemovableSet {
	var both bitmap
	for _, set := range []RemovableSet{a, b} {
		for ordinal := range set.All {
			both.extend(ordinal)
			both.set(ordinal)
		}
	}
	return newRemovableSet(max(a.SinceMs, b.SinceMs), both.members)
}
