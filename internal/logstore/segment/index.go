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
	Position int32 // in the data file
}

// TimeEntry is an entry of the time index.
type TimeEntry struct {
	Timestamp int64 // ms; the largest of the segment up to the moment of writing
	Relative  int32 // last offset of the first batch that has it, minus the segment's base
}

// ParseOffsetEntry reads an entry; b holds at least OffsetEntryBytes. Any bytes make an entry, not
// always a sensible one.
func ParseOffsetEntry(b []byte) OffsetEntry {
	return OffsetEntry{
		Relative: int32(binary.BigEndian.Uint32(b)),
		Position: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// ParseTimeEntry reads an entry; b holds at least TimeEntryBytes.
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

// entries is an immutable list of index entries. The first are in the index file; the rest, the
// tail, only in memory until the next flush: writing each entry by itself would cost two more
// writes for every append.
type entries[E any] struct {
	written int // entries in the file, from its beginning on
	tail    []E
	last    E // of all; meaningless when there is none
}

func (e entries[E]) count() int { return e.written + len(e.tail) }

// with returns the list with one entry more. Lists share the array of their tails, so only the
// newest may be extended: an older one sees the array up to its own length, and that part is never
// written again.
func (e entries[E]) with(entry E) entries[E] {
	return entries[E]{written: e.written, tail: append(e.tail, entry), last: entry}
}

// index is an index file, and how its entries are laid out. It holds no count: which entries there
// are is the view's to say, so that readers and the appender need not agree.
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

// searchBlock is the number of entries that a search reads at once when it has come down to so few.
const searchBlock = 256

// prefix returns how many entries hold a condition that, as the list ascends, holds for a prefix of
// it. It reads the file for what is not in memory: a binary search one entry a read, and once so
// few are left, all of them in one.
func (x index[E]) prefix(e entries[E], holds func(E) bool) (int, error) {
	if e.count() == 0 || holds(e.last) {
		return e.count(), nil // the readers at the end of the log come here, and read nothing
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

// at returns an entry.
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

// read returns the entries [from, to) of the file.
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

// flush writes the tail to the file. When it fails the list is as good as before: a later flush
// writes the same place again.
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

// first returns the first n entries, n <= count. The file is not changed.
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
	// Clipped: what follows in the array belongs to older lists still.
	return entries[E]{written: written, tail: slices.Clip(e.tail[:n-written]), last: last}, nil
}

// trim cuts the file to the entries that are in it; older ones may lie behind them after Truncate.
func (x index[E]) trim(e entries[E]) error {
	if err := x.file.Truncate(int64(e.written * x.entryBytes)); err != nil {
		return fmt.Errorf("truncate index: %w", err)
	}
	return nil
}
