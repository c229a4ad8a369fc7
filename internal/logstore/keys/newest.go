package keys

import (
	"fmt"
	"math"
	"sort"
)

// Newest iterates over the ordinals of the records with one hash, in descending order. It keeps
// only one page of entries, 16 KiB, in memory, however many records there are. It first reads the
// page that contains the last record, and reads each earlier page when the iteration reaches it.
type Newest struct {
	reader     *Reader
	hash       Hash
	bucket     int
	begin, end int64  // begin and end of the bucket in the section of entries
	number     int    // number of the current page in the bucket
	page       Page   // entries of the current page
	left       int    // number of entries in the page that Next has not passed yet
	last       uint32 // ordinal that Next has returned last
	any        bool   // true if last is set
	buffer     []byte
	err        error
}

// Newest returns an iterator over the records with a hash. The first call of Next moves it to the
// newest record.
func (r *Reader) Newest(hash Hash) *Newest {
	n := &Newest{reader: r, hash: hash}
	n.err = n.seek()
	return n
}

// entryPageSize is the size of each page of a bucket, except the last page.
const entryPageSize = entryPageBytes + checksumBytes

// seek moves to the position after the last entry of the hash.
func (n *Newest) seek() (err error) {
	header := &n.reader.header
	if header.counts.Entries() == 0 {
		return nil
	}
	n.bucket = int(n.hash.High >> (64 - header.bucketBits))
	var table bucketTable
	// The end is looked up first, for the same reason as in Entries.start.
	if n.end, err = table.at(n.reader, n.bucket+1); err != nil {
		return err
	}
	if n.begin, err = table.at(n.reader, n.bucket); err != nil {
		return err
	}
	if n.begin > n.end {
		return fmt.Errorf("%w: bucket %d from %d to %d", ErrCorrupt, n.bucket, n.begin, n.end)
	}
	pages := int((n.end - n.begin + entryPageSize - 1) / entryPageSize)
	if pages == 0 {
		return nil
	}
	if err := n.seekPage(pages); err != nil {
		return err
	}
	target := packed{n.hash.High, uint64(n.hash.Low)<<32 | math.MaxUint32}
	n.left = sort.Search(n.page.Len(), func(i int) bool { return target.less(n.packed(i)) })
	return nil
}

// seekPage loads the last page that begins with the given hash or a lower hash, or the first page.
//
// A bucket has many pages if it contains many records of one key, and few records of other keys. So
// the search usually ends at the last page or at one of the first pages.
func (n *Newest) seekPage(pages int) error {
	first, end := 0, pages // range that contains the page
	for probe := pages - 1; ; {
		if err := n.load(probe); err != nil {
			return err
		}
		begins := decodePacked(n.page)
		if above := n.hash.Less(begins.entry().Hash); above {
			end = probe
		} else {
			first = probe
		}
		switch {
		case first == end:
			return nil // all entries of the bucket are above the hash, and the first page is loaded
		case end-first == 1:
			if probe == first {
				return nil
			}
			return n.load(first)
		case probe == pages-1:
			probe = 1
		default:
			probe = (first + end) / 2
		}
	}
}

// load reads and checks a page of the bucket.
func (n *Newest) load(number int) error {
	r, position := n.reader, n.begin+int64(number)*entryPageSize
	size := int(min(n.end-position, entryPageSize))
	if (size-checksumBytes)%entryBytes != 0 || size <= checksumBytes {
		return fmt.Errorf("%w: a page of %d bytes", ErrCorrupt, size)
	}
	if cap(n.buffer) < size {
		n.buffer = make([]byte, min(n.end-n.begin, entryPageSize))
	}
	content := n.buffer[:size]
	begin := r.header.extent(entriesSection).begin
	if err := readFull(r.file, content, begin+position, r.read); err != nil {
		return err
	}
	payload, err := checkPage(content, r.header.identity.Digest, entriesSection, position)
	if err != nil {
		return err
	}
	n.number, n.page, n.left = number, Page(payload), len(payload)/entryBytes
	first, last := n.packed(0), n.packed(n.left-1)
	shift := 64 - r.header.bucketBits
	if last.less(first) || int(first.high>>shift) != n.bucket ||
		int(last.high>>shift) != n.bucket {
		return fmt.Errorf("%w: entries out of order in bucket %d", ErrCorrupt, n.bucket)
	}
	return nil
}

func (n *Newest) packed(i int) packed { return decodePacked(n.page[i*entryBytes:]) }

// Next moves to the next lower ordinal. It returns false after the lowest ordinal or after an
// error; see Err.
func (n *Newest) Next() bool {
	if n.err != nil {
		return false
	}
	if n.left == 0 {
		if n.page == nil || n.number == 0 {
			return false
		}
		if n.err = n.load(n.number - 1); n.err != nil {
			return false
		}
	}
	e := n.packed(n.left - 1).entry()
	if e.Hash != n.hash {
		n.page = nil // left stays 0 from now on
		n.left = 0
		return false
	}
	if n.left--; n.any && e.Ordinal >= n.last {
		n.err = fmt.Errorf("%w: record %d after %d", ErrCorrupt, e.Ordinal, n.last)
		return false
	}
	n.last, n.any = e.Ordinal, true
	return true
}

// Ordinal returns the current ordinal.
func (n *Newest) Ordinal() uint32 { return n.last }

// Err returns the error that ended the iteration, or nil if the iteration reached its end.
func (n *Newest) Err() error { return n.err }
