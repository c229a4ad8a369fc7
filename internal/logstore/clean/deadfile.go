package clean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// ErrDeadFile is wrapped by every error about bytes that are no .dead file. Who meets it goes on
// without the file.
var ErrDeadFile = errors.New("not a .dead file")

// Where the fields of a .dead file stand (docs/format/dead.md).
const (
	deadMagic       = "HWDEAD\x00\x01"
	deadHeaderBytes = 88
	groupBytes      = 16
	deadGroupsMax   = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Binding is what ties a .dead file to the very bytes it was made for. Two that are equal may share
// their ordinals.
type Binding struct {
	Base     int64
	LogBytes int64
	Identity uint64 // of .log and .keys: see keys.Reader
	Records  uint32 // ordinals
}

// DeadFile is what a pass found in one segment: the content of its .dead file.
//
// Invariants: every ordinal in Bitmap and Lonely is below Binding.Records; the groups of Lonely
// ascend by Since and share no ordinal; there are at most 16.
type DeadFile struct {
	Binding
	ComputedThrough int64 // the bound of the pass: nothing from here on was known
	// of the leader epochs below ComputedThrough: another one voids the file (F4)
	Lineage    uint64
	PassedAtMs int64
	// since when a dead record here has kept a tombstone in the log (F7); 0: none does
	BlockingSinceMs int64
	DeadBytes       int64
	DeadRecords     uint32

	Bitmap    bitmap
	Removable []RemovableSet
}

// RemovableSet is tombstones and markers of a segment that became lonely in one pass.
type RemovableSet struct {
	SinceMs  int64
	Count    uint32
	ordinals []byte // LEB128 differences: a list of numbers would take four times as much
}

// newGroup makes a group of ordinals that ascend.
func newGroup(sinceMs int64, ordinals func(yield func(uint32) bool)) RemovableSet {
	g := RemovableSet{SinceMs: sinceMs}
	last := uint32(0)
	for ordinal := range ordinals {
		g.ordinals = binary.AppendUvarint(g.ordinals, uint64(ordinal-last))
		last = ordinal
		g.Count++
	}
	return g
}

// All yields the ordinals, ascending. The bytes were checked when the group was made or decoded.
func (g RemovableSet) All(yield func(uint32) bool) {
	last := uint32(0)
	for rest := g.ordinals; len(rest) > 0; {
		difference, size := binary.Uvarint(rest)
		last += uint32(difference)
		if !yield(last) {
			return
		}
		rest = rest[size:]
	}
}

// check holds a decoded group against what newGroup makes.
func (g RemovableSet) check(records uint32) error {
	last, count := int64(-1), uint32(0)
	for rest := g.ordinals; len(rest) > 0; count++ {
		difference, size := binary.Uvarint(rest)
		if size <= 0 || difference > uint64(records) || count > 0 && difference == 0 {
			return fmt.Errorf("%w: ordinal %d of a group", ErrDeadFile, count)
		}
		last = max(last, 0) + int64(difference)
		if last >= int64(records) {
			return fmt.Errorf("%w: ordinal %d of %d records", ErrDeadFile, last, records)
		}
		rest = rest[size:]
	}
	if count != g.Count || count == 0 {
		return fmt.Errorf("%w: a group of %d ordinals says it has %d", ErrDeadFile, count, g.Count)
	}
	return nil
}

// DeadFileBytesMax is the largest .dead file of a segment with so many records: who reads one holds
// its size against this before he allocates.
func DeadFileBytesMax(records uint32) int64 {
	return deadHeaderBytes + int64(records)/8 + 8 + deadGroupsMax*groupBytes +
		int64(records)*binary.MaxVarintLen32 + 4
}

// Encode returns the content of the file.
func (d *DeadFile) Encode() []byte {
	words := d.Bitmap
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	out := make([]byte, deadHeaderBytes, deadHeaderBytes+8*len(words)+groupBytes*len(d.Removable)+4)
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
	for _, g := range d.Removable {
		out = binary.BigEndian.AppendUint64(out, uint64(g.SinceMs))
		out = binary.BigEndian.AppendUint32(out, g.Count)
		out = binary.BigEndian.AppendUint32(out, uint32(len(g.ordinals)))
		out = append(out, g.ordinals...)
	}
	return appendSum(out)
}

// appendSum appends the checksum of everything before it.
func appendSum(out []byte) []byte {
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// DecodeDeadFile reads the content of a .dead file. It fails with an error that wraps ErrDeadFile
// for everything Encode would not have written. The groups of what it returns point into content.
func DecodeDeadFile(content []byte) (*DeadFile, error) {
	size := len(content) - 4
	if size < deadHeaderBytes || string(content[:8]) != deadMagic {
		return nil, fmt.Errorf("%w: it begins otherwise", ErrDeadFile)
	}
	if crc32.Checksum(content[:size], castagnoli) != binary.BigEndian.Uint32(content[size:]) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrDeadFile)
	}
	field := func(at int) uint64 { return binary.BigEndian.Uint64(content[at:]) }
	half := func(at int) uint32 { return binary.BigEndian.Uint32(content[at:]) }
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
	if err := d.decodeGroups(rest, half(80)); err != nil {
		return nil, err
	}
	return d, nil
}

// decodeBitmap reads the bitmap and returns what follows it.
func (d *DeadFile) decodeBitmap(rest []byte, words uint32) ([]byte, error) {
	if uint64(words)*8 > uint64(len(rest)) || uint64(words) > (uint64(d.Records)+63)/64 {
		return nil, fmt.Errorf("%w: %d words of a bitmap of %d records in %d bytes", ErrDeadFile,
			words, d.Records, len(rest))
	}
	d.Bitmap = make(bitmap, words)
	for i := range d.Bitmap {
		d.Bitmap[i] = binary.BigEndian.Uint64(rest[8*i:])
	}
	if n := d.Bitmap.count(0, d.Records); n != int(d.DeadRecords) || d.Bitmap.all() != n {
		return nil, fmt.Errorf("%w: %d dead records of %d are marked, it says %d", ErrDeadFile,
			d.Bitmap.all(), d.Records, d.DeadRecords)
	}
	return rest[8*words:], nil
}

// decodeGroups reads the groups, to the end.
func (d *DeadFile) decodeGroups(rest []byte, groups uint32) error {
	if groups > deadGroupsMax {
		return fmt.Errorf("%w: %d groups", ErrDeadFile, groups)
	}
	for range groups {
		if len(rest) < groupBytes {
			return fmt.Errorf("%w: cut off in a group", ErrDeadFile)
		}
		g := RemovableSet{SinceMs: int64(binary.BigEndian.Uint64(rest)),
			Count: binary.BigEndian.Uint32(rest[8:])}
		size := uint64(binary.BigEndian.Uint32(rest[12:]))
		if rest = rest[groupBytes:]; size > uint64(len(rest)) {
			return fmt.Errorf("%w: a group of %d bytes in %d", ErrDeadFile, size, len(rest))
		}
		g.ordinals, rest = rest[:size:size], rest[size:]
		if err := g.check(d.Records); err != nil {
			return err
		}
		if n := len(d.Removable); n > 0 && d.Removable[n-1].SinceMs >= g.SinceMs {
			return fmt.Errorf("%w: its groups do not ascend", ErrDeadFile)
		}
		d.Removable = append(d.Removable, g)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes behind its end", ErrDeadFile, len(rest))
	}
	return nil
}

// stillLonely returns the groups of an earlier pass as of this one, which found lonely to be so. A
// record that was lonely stays so, unless the log was truncated. It takes those out of lonely: what
// is left became so since (X3).
func stillLonely(before []RemovableSet, lonely bitmap) (still []RemovableSet) {
	for _, g := range before {
		kept := newGroup(g.SinceMs, func(yield func(uint32) bool) {
			for ordinal := range g.All {
				if lonely.has(ordinal) && !yield(ordinal) {
					return
				}
			}
		})
		for ordinal := range kept.All {
			lonely.clear(ordinal)
		}
		if kept.Count > 0 {
			still = append(still, kept)
		}
	}
	return still
}

// settleGroups merges groups of the same time, and the oldest two as long as there are too many:
// with the later time, for late is allowed and early is not.
func settleGroups(groups []RemovableSet) []RemovableSet {
	slices.SortStableFunc(groups,
		func(a, b RemovableSet) int { return int(min(1, max(-1, a.SinceMs-b.SinceMs))) })
	for i := 0; i+1 < len(groups); {
		if groups[i].SinceMs == groups[i+1].SinceMs || i == 0 && len(groups) > deadGroupsMax {
			groups[i] = mergeGroups(groups[i], groups[i+1])
			groups = slices.Delete(groups, i+1, i+2)
			continue
		}
		i++
	}
	return groups
}

// mergeGroups returns the ordinals of both under the later time.
func mergeGroups(a, b RemovableSet) RemovableSet {
	var both bitmap
	for _, g := range []RemovableSet{a, b} {
		for ordinal := range g.All {
			both.extend(ordinal)
			both.set(ordinal)
		}
	}
	return newGroup(max(a.SinceMs, b.SinceMs), both.members)
}
