package segment

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"heartwood.dev/heartwood/internal/vfs"
)

// Sizes of the entries of the index files.
const (
	OffsetEntryBytes = 8
	TimeEntryBytes   = 12
)

// OffsetEntry is an entry of the offset index.
type OffsetEntry struct {
	Relative int32 // last offset of the batch at Position, minus the segment's base
	Position int32 // position in the data file
}

// TimeEntry is an entry of the time index.
type TimeEntry struct {
	Timestamp int64 // ms; largest timestamp in the segment when the entry was written
	Relative  int32 // last offset of the first batch with Timestamp, minus the segment's base
}

// ParseOffsetEntry decodes an entry from the first OffsetEntryBytes bytes of b. It does not
// validate the entry.
func ParseOffsetEntry(b []byte) OffsetEntry {
	return OffsetEntry{
		Relative: int32(binary.BigEndian.Uint32(b)),
		Position: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// ParseTimeEntry decodes an entry from the first TimeEntryBytes bytes of b. It does not validate
// the entry.
func ParseTimeEntry(b []byte) TimeEntry {
	return TimeEntry{
		Timestamp: int64(binary.BigEndian.Uint64(b)),
		Relative:  int32(binary.BigEndian.Uint32(b[8:])),
	}
}

func appendOffsetEntry(dst []byte, e OffsetEntry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Relative))
	return binary.BigEndian.AppendUint32(dst, uint32(e.Position))
}

func appendTimeEntry(dst []byte, e TimeEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Timestamp))
	return binary.BigEndian.AppendUint32(dst, uint32(e.Relative))
}

// entries is an immutable list of index entries. The first entries are in the index file. The tail
// is only in memory until the next flush, because writing each entry at once would cost two more
// writes per append.
type entries[E any] struct {
	written int // number of entries in the file
	tail    []E
	last    E // last entry of the list; undefined if the list is empty
}

func (e entries[E]) count() int { return e.written + len(e.tail) }

// with returns the list with one more entry. The old and the new list share the array of their
// tails, so with must be called only once on each list. An older list reads only the part of the
// array below its own length, which never changes.
func (e entries[E]) with(entry E) entries[E] {
	return entries[E]{written: e.written, tail: append(e.tail, entry), last: entry}
}

// index is an index file and the encoding of its entries. It does not store the number of entries:
// the view defines which entries exist, so readers need no lock.
type index[E any] struct {
	file       *vfs.Handle
	entryBytes int
	parse      func([]byte) E
	append     func([]byte, E) []byte
}

func offsetIndex(file *vfs.Handle) index[OffsetEntry] {
	return index[OffsetEntry]{file, OffsetEntryBytes, ParseOffsetEntry, appendOffsetEntry}
}

func timeIndex(file *vfs.Handle) index[TimeEntry] {
	return index[TimeEntry]{file, TimeEntryBytes, ParseTimeEntry, appendTimeEntry}
}

// searchBlock is the number of entries that the last step of a binary search reads at once.
const searchBlock = 256

// prefix returns the number of entries at the start of the list for which holds returns true. holds
// must return false for all later entries. Entries that are not in memory are read from the file:
// one entry per step of a binary search, and the last searchBlock entries at once.
func (x index[E]) prefix(e entries[E], holds func(E) bool) (int, error) {
	if e.count() == 0 || holds(e.last) {
		return e.count(), nil // readers at the end of the log return here, without I/O
	}
	if len(e.tail) > 0 && (e.written == 0 || holds(e.tail[0])) {
		return e.written + sort.Search(len(e.tail), func(i int) bool { return !holds(e.tail[i]) }),
			nil
	}
	low, high := 0, e.written
	for high-low > searchBlock {
		middle := low + (high-low)/2
		entry, err := x.at(e, middle)
		if err != nil {
			return 0, err
		}
		if holds(entry) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	block, err := x.read(low, high)
	if err != nil {
		return 0, err
	}
	return low + sort.Search(len(block), func(i int) bool { return !holds(block[i]) }), nil
}

// at returns entry i of the list.
func (x index[E]) at(e entries[E], i int) (E, error) {
	switch {
	case i == e.count()-1:
		return e.last, nil
	case i >= e.written:
		return e.tail[i-e.written], nil
	}
	block, err := x.read(i, i+1)
	if err != nil {
		var none E
		return none, err
	}
	return block[0], nil
}

// read returns the entries [from, to) in the file.
func (x index[E]) read(from, to int) ([]E, error) {
	content := make([]byte, (to-from)*x.entryBytes)
	if n, err := x.file.ReadAt(content, int64(from*x.entryBytes)); n < len(content) {
		return nil, fmt.Errorf("read index entries %d to %d: %w", from, to, err)
	}
	block := make([]E, 0, to-from)
	for ; len(content) > 0; content = content[x.entryBytes:] {
		block = append(block, x.parse(content))
	}
	return block, nil
}

// flush writes the tail of the list to the file. After a failure the list is unchanged, and a later
// flush writes the tail again at the same position.
func (x index[E]) flush(e entries[E]) (entries[E], error) {
	if len(e.tail) == 0 {
		return e, nil
	}
	if _, err := x.file.WriteAt(x.encode(e.tail), int64(e.written*x.entryBytes)); err != nil {
		return e, fmt.Errorf("write index entries: %w", err)
	}
	return entries[E]{written: e.count(), last: e.last}, nil
}

func (x index[E]) encode(list []E) []byte {
	content := make([]byte, 0, len(list)*x.entryBytes)
	for _, entry := range list {
		content = x.append(content, entry)
	}
	return content
}

// first returns the list of the first n entries; n is at most e.count(). It does not change the
// file.
func (x index[E]) first(e entries[E], n int) (entries[E], error) {
	switch n {
	case 0:
		return entries[E]{}, nil
	case e.count():
		return e, nil
	}
	last, err := x.at(e, n-1)
	if err != nil {
		return e, err
	}
	written := min(n, e.written)
	// Clip the tail, because the array beyond it belongs to older lists.
	return entries[E]{written: written, tail: slices.Clip(e.tail[:n-written]), last: last}, nil
}

// trim truncates the file to the written entries of the list. The file is longer than the list if
// first has shortened the list.
func (x index[E]) trim(e entries[E]) error {
	if err := x.file.Truncate(int64(e.written * x.entryBytes)); err != nil {
		return fmt.Errorf("truncate index: %w", err)
	}
	return nil
}
