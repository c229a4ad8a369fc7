package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// section is the number of a part of one of this package's files. A page's checksum covers the
// section, so a page of one section is not accepted in another section.
type section uint8

const (
	batchesSection section = 1 + iota
	recordsSection
	entriesSection
	bucketsSection
	spoolSection
	runsSection
	indexSection
	spanSection // items of a span of batches; see indexItem
)

// Sizes of pages, without their checksum.
const (
	streamPageBytes = 64<<10 - checksumBytes // pages of batches and of records
	spoolPageBytes  = 8<<10 - checksumBytes
	entryPageBytes  = entryPageMax * entryBytes
	entryPageMax    = 1024
	bucketPageBytes = bucketPageMax * 8
	bucketPageMax   = 128
	runPageBytes    = 256 * entryBytes
	checksumBytes   = 4
)

// pageChecksum covers the payload and the place of the page: the data file's digest, the section,
// and the page's position in the section.
func pageChecksum(digest uint64, part section, position int64, payload []byte) uint32 {
	return crc32.Update(pageTag(digest, part, position), castagnoli, payload)
}

// pageTag returns the checksum of the values that precede the payload in pageChecksum.
func pageTag(digest uint64, part section, position int64) uint32 {
	var tag [16]byte
	binary.BigEndian.PutUint64(tag[:], digest)
	binary.BigEndian.PutUint64(tag[8:], uint64(part)<<56|uint64(position))
	return crc32.Checksum(tag[:], castagnoli)
}

// pageWriter writes a section, page by page.
//
// Invariant between calls: len(payload) < capacity.
type pageWriter struct {
	out      io.Writer
	digest   uint64
	section  section
	capacity int    // maximum size of the payload of a page
	payload  []byte // payload of the current page
	written  int64  // bytes written, including checksums but not the current page
}

// write appends bytes to the section. A page may end anywhere within these bytes.
func (w *pageWriter) write(part []byte) error {
	for len(part) >= w.capacity-len(w.payload) {
		n := w.capacity - len(w.payload)
		w.payload = append(w.payload, part[:n]...)
		part = part[n:]
		if err := w.end(); err != nil {
			return err
		}
	}
	w.payload = append(w.payload, part...)
	return nil
}

// end writes the current page unless it is empty.
func (w *pageWriter) end() error {
	if len(w.payload) == 0 {
		return nil
	}
	sum := pageChecksum(w.digest, w.section, w.written, w.payload)
	w.payload = binary.BigEndian.AppendUint32(w.payload, sum)
	if _, err := w.out.Write(w.payload); err != nil {
		return err
	}
	w.written += int64(len(w.payload))
	w.payload = w.payload[:0]
	return nil
}

// extent is the part of a file that a section occupies.
type extent struct {
	begin, bytes int64
}

// pageReader reads the pages of a section in order.
type pageReader struct {
	file     io.ReaderAt
	read     func(n int) error // called before each read; may be nil
	digest   uint64
	section  section
	extent   extent
	capacity int

	next   int64  // position of the next page in the section
	buffer []byte // memory of the current page, reused for the next one
	rest   []byte // unread part of the current payload
}

// fill reads the next page, or returns io.EOF after the last page.
func (r *pageReader) fill() error {
	left := r.extent.bytes - r.next
	if left == 0 {
		return io.EOF
	}
	size := int(min(left, int64(r.capacity+checksumBytes)))
	if size <= checksumBytes {
		return fmt.Errorf("%w: a page of %d bytes", ErrCorrupt, size)
	}
	if cap(r.buffer) < size {
		r.buffer = make([]byte, size)
	}
	page := r.buffer[:size]
	if err := readFull(r.file, page, r.extent.begin+r.next, r.read); err != nil {
		return err
	}
	payload, err := checkPage(page, r.digest, r.section, r.next)
	if err != nil {
		return err
	}
	r.rest = payload
	r.next += int64(size)
	return nil
}

// checkPage returns the payload of a page after checking its checksum.
func checkPage(page []byte, digest uint64, part section, position int64) ([]byte, error) {
	payload := page[:len(page)-checksumBytes]
	if binary.BigEndian.Uint32(page[len(payload):]) != pageChecksum(digest, part, position, payload) {
		return nil, fmt.Errorf("%w: checksum of the page at %d in section %d does not match",
			ErrCorrupt, position, part)
	}
	return payload, nil
}

// readFull reads len(part) bytes at a position in the file. If the file ends before the last of
// these bytes, it is corrupt, because its size does not match its header.
func readFull(file io.ReaderAt, part []byte, position int64, read func(n int) error) error {
	if read != nil {
		if err := read(len(part)); err != nil {
			return err
		}
	}
	n, err := file.ReadAt(part, position)
	switch {
	case n == len(part):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %d bytes at %d, want %d", ErrCorrupt, n, position, len(part))
	}
	return fmt.Errorf("read key sidecar: %w", err)
}

// take reads the next len(into) bytes of the section.
func (r *pageReader) take(into []byte) error {
	for len(into) > 0 {
		if len(r.rest) == 0 {
			if err := r.fill(); err != nil {
				return noEOF(err)
			}
		}
		n := copy(into, r.rest)
		into, r.rest = into[n:], r.rest[n:]
	}
	return nil
}

// skip skips n bytes of the section. It verifies the checksums of the pages that contain these
// bytes.
func (r *pageReader) skip(n uint64) error {
	for n > uint64(len(r.rest)) {
		n -= uint64(len(r.rest))
		if err := r.fill(); err != nil {
			return noEOF(err)
		}
	}
	r.rest = r.rest[n:]
	return nil
}

// byte reads one byte, or returns io.EOF at the end of the section.
func (r *pageReader) byte() (byte, error) {
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b, nil
}

// uvarint reads an unsigned number below limit. A number that the end of the section truncates, or
// that has more than ten bytes, is corrupt.
func (r *pageReader) uvarint(limit uint64) (uint64, error) {
	// Most numbers take two bytes, and most numbers are within one page.
	if rest := r.rest; len(rest) >= 2 && rest[0] >= 0x80 && rest[1] < 0x80 && limit > 1<<14 {
		r.rest = rest[2:]
		return uint64(rest[0]&0x7f) | uint64(rest[1])<<7, nil
	}
	var value uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := r.byte()
		if err != nil {
			return 0, noEOF(err)
		}
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if value >= limit {
				return 0, fmt.Errorf("%w: number %d, want less than %d", ErrCorrupt, value,
					limit)
			}
			return value, nil
		}
	}
	return 0, fmt.Errorf("%w: number of more than ten bytes", ErrCorrupt)
}

// varint reads a signed number.
func (r *pageReader) varint() (int64, error) {
	value, err := r.uvarint(1<<64 - 1)
	return int64(value>>1) ^ -int64(value&1), err
}

// atEnd returns an error unless the stream ends here.
func (r *pageReader) atEnd() error {
	if left := int64(len(r.rest)) + r.extent.bytes - r.next; left != 0 {
		return fmt.Errorf("%w: %d bytes after the end of section %d", ErrCorrupt, left, r.section)
	}
	return nil
}

// noEOF converts an unexpected io.EOF to ErrCorrupt.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a section ends within an item", ErrCorrupt)
	}
	return err
}
