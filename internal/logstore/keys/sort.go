package keys

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"heartwood.dev/heartwood/internal/vfs"
)

// sortPacked writes the sorted entries to scratch, which must have the same length as entries, and
// returns scratch.
//
// Hashes are uniformly distributed. So sortPacked first distributes the entries over buckets by
// their upper bits, and then sorts the few entries of each bucket by insertion. This takes about a
// seventh of the time of a comparison sort. The bucket of a frequent key is larger, and is sorted
// by comparison.
func sortPacked(entries, scratch []packed) []packed {
	k := bits.Len(uint(len(entries))) - 3 // 2^k buckets, with 4 to 8 entries each on average
	k = min(max(k, 0), scatterBitsMax)
	shift := 64 - k
	begins := make([]uint32, 1<<k+1)
	for i := range entries {
		begins[entries[i].high>>shift+1]++
	}
	for i := 1; i < len(begins); i++ {
		begins[i] += begins[i-1]
	}
	// begins[b] advances while bucket b is filled. In the end it is the start of bucket b+1.
	for i := range entries {
		entry := &begins[entries[i].high>>shift]
		scratch[*entry] = entries[i]
		*entry++
	}
	from := uint32(0)
	for _, to := range begins[:1<<k] {
		sortBucket(scratch[from:to])
		from = to
	}
	return scratch
}

// scatterBitsMax limits the number of buckets, and therefore the size of begins to 256 KiB.
const scatterBitsMax = 16

// sortBucket sorts a bucket by insertion if it is small, and otherwise by comparison.
func sortBucket(bucket []packed) {
	if len(bucket) > 32 {
		slices.SortFunc(bucket, compare)
		return
	}
	for i := 1; i < len(bucket); i++ {
		moved, index := bucket[i], i
		for ; index > 0 && moved.less(bucket[index-1]); index-- {
			bucket[index] = bucket[index-1]
		}
		bucket[index] = moved
	}
}

// sorter sorts any number of entries in a fixed amount of memory. It sorts runs of as many entries
// as fit into memory, writes the runs to a temporary file and merges them. If all entries fit into
// memory, it writes no file.
type sorter struct {
	fsys    vfs.FS
	name    string // path of the temporary file
	out     func(vfs.File) *output
	read    func(n int) error
	entries []packed // current run; the capacity is the number of entries that fit into memory
	scratch []packed

	file *output
	runs []extent
}

// newSorter returns a sorter for the given total number of entries. fit is the number of entries
// that fit into memory.
func newSorter(total, fit int) *sorter {
	n := min(total, fit)
	return &sorter{entries: make([]packed, 0, n), scratch: make([]packed, n)}
}

func (s *sorter) add(e Entry) error {
	if len(s.entries) == cap(s.entries) {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.entries = append(s.entries, pack(e))
	return nil
}

// sorted returns the sorted entries of the current run, and starts another run.
func (s *sorter) sorted() []packed {
	run := sortPacked(s.entries, s.scratch[:len(s.entries)])
	s.entries = s.entries[:0]
	return run
}

// spill sorts the current run and writes it to the temporary file.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := s.fsys.Create(s.name)
		if err != nil {
			return fmt.Errorf("create temporary file to sort key hashes: %w", err)
		}
		s.file = s.out(file)
	}
	begin := s.file.size
	pages := pageWriter{out: s.file, digest: uint64(len(s.runs)), section: runsSection,
		capacity: runPageBytes}
	var raw [entryBytes]byte
	for _, e := range s.sorted() {
		if err := pages.write(e.append(raw[:0])); err != nil {
			return err
		}
	}
	if err := pages.end(); err != nil {
		return err
	}
	s.runs = append(s.runs, extent{begin: begin, bytes: pages.written})
	return nil
}

// each visits all entries in the order of the sidecar. It must not be called more than once.
func (s *sorter) each(visit func(packed) error) error {
	if s.file == nil {
		for _, e := range s.sorted() {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	if err := s.file.flush(); err != nil {
		return err
	}
	s.entries, s.scratch = nil, nil // free the memory for the merge
	var sources []func() (packed, error)
	for i, run := range s.runs {
		pages := &pageReader{
			file: s.file.file, read: s.read, digest: uint64(i), section: runsSection, extent: run,
			capacity: runPageBytes,
		}
		sources = append(sources, func() (packed, error) { return pages.packed() })
	}
	return mergePacked(sources, visit)
}

// packed reads the next entry of a run, or returns io.EOF after the last entry. An entry is always
// within one page.
func (r *pageReader) packed() (packed, error) {
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return packed{}, err
		}
	}
	if len(r.rest) < entryBytes {
		return packed{}, fmt.Errorf("%w: a page ends within an entry", ErrCorrupt)
	}
	e := decodePacked(r.rest)
	r.rest = r.rest[entryBytes:]
	return e, nil
}

// close deletes the temporary file.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.file.Close(), s.fsys.Remove(s.name))
	s.file = nil
	return err
}

// mergePacked visits the entries of several sorted sources in the order of the sidecar. A source is
// a function that returns its next entry, or io.EOF after its last entry.
func mergePacked(sources []func() (packed, error), visit func(packed) error) error {
	var heap mergeHeap
	for _, next := range sources {
		e, err := next()
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return err
		}
		heap = append(heap, mergeHead{e, next})
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		heap.down(i)
	}
	for len(heap) > 0 {
		head := &heap[0]
		if err := visit(head.entry); err != nil {
			return err
		}
		e, err := head.next()
		switch {
		case errors.Is(err, io.EOF):
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		case err != nil:
			return err
		default:
			head.entry = e
		}
		heap.down(0)
	}
	return nil
}

// mergeHead is a source of mergePacked and its next entry.
type mergeHead struct {
	entry packed
	next  func() (packed, error)
}

// mergeHeap is a binary heap: the smallest entry is at index 0. Invariant: no entry is less than
// its parent's entry, which is at index (i-1)/2.
type mergeHeap []mergeHead

// down restores the invariant by moving the entry at index i down. Only this entry may violate the
// invariant.
func (h mergeHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].entry.less(h[least].entry) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
