package keys

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"heartwood.dev/heartwood/internal/vfs"
)

// sortPacked sorts entries into scratch, which has the same length, and returns scratch.
//
// Hashes are uniform, so scattering them by their upper bits gives buckets of a few entries, which
// are sorted by insertion: about a seventh of the time of a comparison sort. The bucket of a hot
// key is larger and is sorted by comparison.
func sortPacked(entries, scratch []packed) []packed {
	k := bits.Len(uint(len(entries))) - 3 // 4 to 8 entries a bucket
	k = min(max(k, 0), scatterBitsMax)
	shift := 64 - k
	begins := make([]uint32, 1<<k+1)
	for i := range entries {
		begins[entries[i].high>>shift+1]++
	}
	for i := 1; i < len(begins); i++ {
		begins[i] += begins[i-1]
	}
	// begins[b] advances while bucket b is filled, and ends as the begin of bucket b+1.
	for i := range entries {
		at := &begins[entries[i].high>>shift]
		scratch[*at] = entries[i]
		*at++
	}
	from := uint32(0)
	for _, to := range begins[:1<<k] {
		sortBucket(scratch[from:to])
		from = to
	}
	return scratch
}

// scatterBitsMax bounds the table of buckets: 256 KiB.
const scatterBitsMax = 16

// sortBucket sorts few entries by insertion, many by comparison.
func sortBucket(bucket []packed) {
	if len(bucket) > 32 {
		slices.SortFunc(bucket, compare)
		return
	}
	for i := 1; i < len(bucket); i++ {
		moved, at := bucket[i], i
		for ; at > 0 && moved.less(bucket[at-1]); at-- {
			bucket[at] = bucket[at-1]
		}
		bucket[at] = moved
	}
}

// sorter sorts any number of entries in a given memory: it sorts runs of as many entries as fit,
// writes them to a file and merges them. Entries that fit at once are not written.
type sorter struct {
	fsys    vfs.FS
	name    string // of the file of runs
	out     func(vfs.File) *output
	read    func(n int) error
	entries []packed // of the current run; its capacity is what fits into memory
	scratch []packed

	file *output
	runs []extent
}

// newSorter returns a sorter for total entries, of which fit can be in memory at once.
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

// sorted returns the current run in order, and starts another.
func (s *sorter) sorted() []packed {
	run := sortPacked(s.entries, s.scratch[:len(s.entries)])
	s.entries = s.entries[:0]
	return run
}

// spill writes the current run to the file.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := s.fsys.Create(s.name)
		if err != nil {
			return fmt.Errorf("create runs of key entries: %w", err)
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

// each visits all entries in order. It may be called once.
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
	s.entries, s.scratch = nil, nil // the merge needs the memory
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

// packed reads the next entry of a run; io.EOF after the last. No entry is split over pages.
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

// close deletes the file of runs.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.file.Close(), s.fsys.Remove(s.name))
	s.file = nil
	return err
}

// mergePacked visits the entries of sorted sources in order. A source returns io.EOF at its end.
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

// mergeHead is a source and its next entry.
type mergeHead struct {
	entry packed
	next  func() (packed, error)
}

// mergeHeap has the smallest entry at 0. Invariant: no entry is less than its parent's, (i-1)/2.
type mergeHeap []mergeHead

// down restores the invariant if only the entry at i may violate it.
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
