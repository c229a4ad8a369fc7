package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

// entriesBufferBytes is the number of bytes of entries that one read reads, unless the rest of the
// range is smaller. It must be at least the size of a page.
const entriesBufferBytes = 64 << 10

// Entries iterates over the entries of a range of hashes, in order. It reads each bucket of the
// range once, in one or a few sequential reads, and one page of the bucket table for each 128
// buckets.
type Entries struct {
	reader *Reader
	span   Range
	err    error

	bucket, lastBucket int   // numbers of the current bucket and of the range's last bucket
	bucketEnd          int64 // position in the section at which the current bucket ends
	rangeEnd           int64 // position in the section at which the last bucket ends
	position           int64 // position of the next page in the section
	begins             bucketTable

	buffer     []byte // bytes of the section, starting at position bufferAt
	bufferAt   int64
	last       packed // last entry of the previous page
	any        bool   // true if a page was read, and so last is set
	page       Page   // entries that Next has not returned yet
	entry      Entry
	entriesMax int64 // number of further entries according to the sidecar's header
}

// Entries returns an iterator over the entries of a range. The first call of Next or NextPage moves
// it to the first entry.
func (r *Reader) Entries(span Range) *Entries {
	e := new(Entries)
	e.Reset(r, span)
	return e
}

// Reset restarts the iterator with another range or another sidecar, and reuses its buffers.
func (e *Entries) Reset(r *Reader, span Range) {
	*e = Entries{reader: r, span: span, buffer: e.buffer[:0],
		begins: bucketTable{page: e.begins.page[:0]}}
	shift := 64 - r.header.bucketBits
	e.bucket, e.lastBucket = int(span.First>>shift), int(span.Last>>shift)
	e.entriesMax = int64(r.header.counts.Entries())
	e.err = e.start()
}

// start looks up the positions at which the range begins and ends.
func (e *Entries) start() (err error) {
	if e.span.First > e.span.Last || e.reader.header.counts.Entries() == 0 {
		return io.EOF
	}
	// Look up the end first. Then the page of the bucket table that contains the start of the range
	// is in memory for the next lookups.
	if e.rangeEnd, err = e.begins.at(e.reader, e.lastBucket+1); err != nil {
		return err
	}
	if e.position, err = e.begins.at(e.reader, e.bucket); err != nil {
		return err
	}
	if e.position > e.rangeEnd {
		return fmt.Errorf("%w: buckets from %d to %d", ErrCorrupt, e.position, e.rangeEnd)
	}
	e.bucketEnd = e.position
	e.bucket-- // nextBucket increments it
	return nil
}

// NextPage returns the next 1 to 1,024 entries of the range, or io.EOF after the last entry. The
// page is valid until the next call. NextPage is faster than Next. A caller must use only one of
// the two methods.
func (e *Entries) NextPage() (Page, error) {
	for e.err == nil {
		if e.position == e.bucketEnd {
			e.err = e.nextBucket()
			continue
		}
		var payload []byte
		if payload, e.err = e.readPage(); e.err != nil {
			break
		}
		if page := e.clip(Page(payload)); len(page) > 0 {
			return page, nil
		}
	}
	return nil, e.err
}

// nextBucket moves to the next bucket of the range. It returns io.EOF if the current bucket is the
// last one.
func (e *Entries) nextBucket() (err error) {
	if e.bucket++; e.bucket > e.lastBucket {
		return io.EOF
	}
	if e.bucketEnd, err = e.begins.at(e.reader, e.bucket+1); err != nil {
		return err
	}
	if e.bucketEnd < e.position || e.bucketEnd > e.rangeEnd {
		return fmt.Errorf("%w: bucket %d from %d to %d", ErrCorrupt, e.bucket, e.position, e.bucketEnd)
	}
	return nil
}

// readPage reads and checks the page at e.position.
func (e *Entries) readPage() ([]byte, error) {
	size := int(min(e.bucketEnd-e.position, entryPageBytes+checksumBytes))
	if (size-checksumBytes)%entryBytes != 0 || size <= checksumBytes {
		return nil, fmt.Errorf("%w: a page of %d bytes", ErrCorrupt, size)
	}
	if e.position < e.bufferAt || e.position+int64(size) > e.bufferAt+int64(len(e.buffer)) {
		if err := e.fill(); err != nil {
			return nil, err
		}
	}
	payload, err := checkPage(e.buffer[e.position-e.bufferAt:][:size], e.reader.header.identity.Digest,
		entriesSection, e.position)
	if err != nil {
		return nil, err
	}
	e.position += int64(size)
	return payload, e.checkOrder(Page(payload))
}

// fill reads the section from e.position into the buffer, until the buffer is full or the range
// ends.
func (e *Entries) fill() error {
	size := int(min(e.rangeEnd-e.position, entriesBufferBytes))
	if cap(e.buffer) < size {
		e.buffer = make([]byte, size)
	}
	e.buffer, e.bufferAt = e.buffer[:size], e.position
	begin := e.reader.header.extent(entriesSection).begin
	return readFull(e.reader.file, e.buffer, begin+e.position, e.reader.read)
}

// checkOrder checks a page's first and last entry against the previous page, the bucket and the
// number of entries. The order within a page needs no check, because the writer has checked it and
// the checksum covers it.
func (e *Entries) checkOrder(page Page) error {
	first, last := decodePacked(page), decodePacked(page[len(page)-entryBytes:])
	shift := 64 - e.reader.header.bucketBits
	e.entriesMax -= int64(page.Len())
	if e.any && !e.last.less(first) || int(first.high>>shift) != e.bucket ||
		int(last.high>>shift) != e.bucket || e.entriesMax < 0 {
		return fmt.Errorf("%w: entries out of order in bucket %d", ErrCorrupt, e.bucket)
	}
	e.last, e.any = last, true
	return nil
}

// clip returns the entries of a page that are in the range.
func (e *Entries) clip(page Page) Page {
	n := page.Len()
	high := func(i int) uint64 { return binary.BigEndian.Uint64(page[i*entryBytes:]) }
	from, to := 0, n
	if high(0) < e.span.First {
		from = sort.Search(n, func(i int) bool { return high(i) >= e.span.First })
	}
	if high(n-1) > e.span.Last {
		to = sort.Search(n, func(i int) bool { return high(i) > e.span.Last })
	}
	return page[from*entryBytes : max(from, to)*entryBytes]
}

// Next moves to the next entry. It returns false after the last entry or after an error; see Err.
func (e *Entries) Next() bool {
	if len(e.page) == 0 {
		page, err := e.NextPage()
		if err != nil {
			return false
		}
		e.page = page
	}
	e.entry = e.page.At(0)
	e.page = e.page[entryBytes:]
	return true
}

// Entry returns the current entry.
func (e *Entries) Entry() Entry { return e.entry }

// Err returns the error that ended the iteration, or nil if the iteration reached its end.
func (e *Entries) Err() error {
	if errors.Is(e.err, io.EOF) {
		return nil
	}
	return e.err
}

// bucketTable reads the section of buckets, one page of 128 positions at a time.
type bucketTable struct {
	first int // number of the first bucket in page
	page  []byte
}

// at returns the position in the section of entries at which a bucket begins. For the number after
// the last bucket it returns the end of the last bucket.
func (t *bucketTable) at(r *Reader, number int) (int64, error) {
	if len(t.page) == 0 || number < t.first || number >= t.first+len(t.page)/8 {
		if err := t.load(r, number/bucketPageMax); err != nil {
			return 0, err
		}
	}
	begin := binary.BigEndian.Uint64(t.page[8*(number-t.first):])
	if begin > uint64(r.header.entriesEnd()) {
		return 0, fmt.Errorf("%w: bucket %d begins at %d", ErrCorrupt, number, begin)
	}
	return int64(begin), nil
}

// load reads a page of the table. All pages except the last one have the same size, so the position
// of a page follows from the page's number.
func (t *bucketTable) load(r *Reader, number int) error {
	where := r.header.extent(bucketsSection)
	position := int64(number) * (bucketPageBytes + checksumBytes)
	page := slices.Grow(t.page[:0],
		bucketPageBytes+checksumBytes)[:min(where.bytes-position, bucketPageBytes+checksumBytes)]
	if err := readFull(r.file, page, where.begin+position, r.read); err != nil {
		return err
	}
	payload, err := checkPage(page, r.header.identity.Digest, bucketsSection, position)
	if err != nil {
		t.page = page[:0]
		return err
	}
	t.first, t.page = number*bucketPageMax, payload
	return nil
}
