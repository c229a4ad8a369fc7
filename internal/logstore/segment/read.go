package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Header is the header of a batch and its position in the data file.
type Header struct {
	// Batch contains only the 61 bytes of the batch header. The methods that return header fields
	// work; Records and CheckCRC do not work.
	record.Batch
	Position  int64 // position in the data file
	SizeBytes int   // size of the whole batch, not only of the header
}

// end returns the position after the batch.
func (h Header) end() int64 { return h.Position + int64(h.SizeBytes) }

// HeaderAt reads the header of the batch at position. It returns io.EOF at the end of the data. If
// no batch that fits into the data begins at position, the error wraps record.ErrCorrupt. The
// caller may keep the header.
func (s *Segment) HeaderAt(position int64) (Header, error) {
	return s.headerIn(s.view.Load(), position)
}

func (s *Segment) headerIn(v *view, position int64) (Header, error) {
	reader := headerReader{file: s.data, size: v.size, block: make([]byte, record.HeaderBytes)}
	return reader.at(position)
}

// headerBlockBytes is the size of each read in a walk over headers. It is the size of one index
// interval and one header, so most lookups need only one read.
const headerBlockBytes = defaultIndexIntervalBytes + record.HeaderBytes

var headerBlocks = sync.Pool{New: func() any { return new([headerBlockBytes]byte) }}

// headerReader reads batch headers in the first size bytes of a data file.
type headerReader struct {
	file  vfs.File
	size  int64
	block []byte
	from  int64 // position of block[0] in the file
	held  int   // number of valid bytes in block
}

// at returns the header at a position. The header is valid until the next call.
func (r *headerReader) at(position int64) (Header, error) {
	left := r.size - position
	switch {
	case left == 0:
		return Header{}, io.EOF
	case position < 0 || left < record.HeaderBytes:
		return Header{}, fmt.Errorf("%w: no header fits at position %d of %d", record.ErrCorrupt,
			position, r.size)
	}
	if position < r.from || position+record.HeaderBytes > r.from+int64(r.held) {
		if err := r.fill(position, left); err != nil {
			return Header{}, err
		}
	}
	batch := record.Batch(r.block[position-r.from:][:record.HeaderBytes])
	size, err := record.PeekSize(batch)
	if err != nil {
		return Header{}, fmt.Errorf("read header at position %d: %w", position, err)
	}
	if int64(size) > left {
		return Header{}, fmt.Errorf("%w: %d bytes at position %d, %d bytes remain",
			record.ErrCorrupt, size, position, left)
	}
	return Header{Batch: batch, Position: position, SizeBytes: size}, nil
}

// fill reads a block that begins at position. It does not read beyond r.size, because later bytes
// are not part of the view.
func (r *headerReader) fill(position, left int64) error {
	n := int(min(int64(len(r.block)), left))
	r.from, r.held = position, 0
	if read, err := r.file.ReadAt(r.block[:n], position); read < n {
		return fmt.Errorf("read header at position %d: %w", position, noEOF(err))
	}
	r.held = n
	return nil
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF, because callers of this package treat io.EOF as the
// end of the data.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errStop ends a walk early. The package never returns it.
var errStop = errors.New("stop")

// walk calls visit for each header from position to the end of the view. A header is valid only
// during the call of visit.
func (s *Segment) walk(v *view, position int64, visit func(Header) error) error {
	block := headerBlocks.Get().(*[headerBlockBytes]byte)
	defer headerBlocks.Put(block)
	reader := headerReader{file: s.data, size: v.size, block: block[:]}
	for position < v.size {
		header, err := reader.at(position)
		if err != nil {
			return err
		}
		if err := visit(header); err != nil {
			return err
		}
		position = header.end()
	}
	return nil
}

// Position returns the position of the first batch whose last offset is >= offset, or SizeBytes if
// there is no such batch. It compares last offsets because cleaning may have removed offset itself
// (I43). A damaged index entry makes Position slower, but not wrong (see startBelow).
func (s *Segment) Position(offset int64) (int64, error) { return s.position(s.view.Load(), offset) }

func (s *Segment) position(v *view, offset int64) (int64, error) {
	switch {
	case offset >= v.next:
		return v.size, nil
	case offset <= v.base:
		return 0, nil
	}
	start, err := s.startBelow(v, offset)
	if err != nil {
		return 0, err
	}
	return s.firstFrom(v, start, func(h Header) bool { return h.LastOffset() >= offset })
}

// EndBelow returns the offset after the last batch that is entirely below offset, or Base if there
// is no such batch.
func (s *Segment) EndBelow(offset int64) (int64, error) {
	v := s.view.Load()
	if offset >= v.next {
		return v.next, nil
	}
	start, err := s.startBelow(v, offset-1)
	if err != nil {
		return 0, err
	}
	end := v.base
	err = s.walk(v, start, func(h Header) error {
		if h.LastOffset() >= offset {
			return errStop
		}
		end = h.NextOffset()
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return 0, err
	}
	return end, nil
}

// startBelow returns the position of the last indexed batch whose last offset is <= offset, or 0 if
// there is no such batch. It also returns 0 if the index entry is damaged and does not point at
// such a batch. A walk from 0 is slow but correct.
func (s *Segment) startBelow(v *view, offset int64) (int64, error) {
	relative := min(offset-v.base, math.MaxInt32)
	n, err := s.offsets.prefix(v.offsets,
		func(e OffsetEntry) bool { return int64(e.Relative) <= relative })
	if err != nil || n == 0 {
		return 0, err
	}
	entry, err := s.offsets.at(v.offsets, n-1)
	if err != nil {
		return 0, err
	}
	header, err := s.headerIn(v, int64(entry.Position))
	if err != nil || header.LastOffset() > offset || header.BaseOffset() < v.base {
		return 0, nil //nolint:nilerr // the walk from 0 returns errors of the file itself
	}
	return header.Position, nil
}

// firstFrom returns the position of the first batch at or after start that matches, or the size of
// the view if no batch matches.
func (s *Segment) firstFrom(v *view, start int64, match func(Header) bool) (int64, error) {
	found := v.size
	err := s.walk(v, start, func(h Header) error {
		if match(h) {
			found = h.Position
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return 0, err
	}
	return found, nil
}

// PositionForTimestamp returns the position of the first batch whose maximum timestamp is >= ms. ok
// is false if there is no such batch.
func (s *Segment) PositionForTimestamp(ms int64) (position int64, ok bool, err error) {
	v := s.view.Load()
	if v.size == 0 || v.maxTimestamp < ms {
		return 0, false, nil
	}
	start, err := s.startBefore(v, ms)
	if err != nil {
		return 0, false, err
	}
	position, err = s.firstFrom(v, start, func(h Header) bool { return h.MaxTimestamp() >= ms })
	return position, err == nil && position < v.size, err
}

// startBefore returns the position of an indexed batch, or 0. Every batch before this position has
// a timestamp < ms (docs/internals/format/index-files.md contains the proof).
func (s *Segment) startBefore(v *view, ms int64) (int64, error) {
	n, err := s.times.prefix(v.times, func(e TimeEntry) bool { return e.Timestamp < ms })
	if err != nil {
		return 0, err
	}
	if n == v.times.count() {
		return s.startBelow(v, v.next-1)
	}
	entry, err := s.times.at(v.times, n)
	if err != nil {
		return 0, err
	}
	return s.startBelow(v, v.base+int64(entry.Relative)-1)
}

// scanBlockBytes is the size of each read of Scan, unless a batch is larger.
const scanBlockBytes = 128 << 10

// Scan calls visit for each batch from position to the end, with the batch's position. It checks
// lengths but not checksums. A batch is valid only during the call of visit. An error of visit ends
// the scan and is returned unchanged. The buffer grows to the size of the largest batch.
func (s *Segment) Scan(position int64, visit func(position int64, b record.Batch) error) error {
	return s.scan(s.view.Load().size, position, visit)
}

// scan is like Scan, but only for the first size bytes of the file. Recover uses it before the
// segment has a view. An incomplete batch at the end of a block is kept for the next read.
// Otherwise batches of about half a block would be read twice.
func (s *Segment) scan(size, position int64,
	visit func(position int64, b record.Batch) error) error {
	var buffer []byte
	blockBytes, kept := scanBlockBytes, 0 // kept is the number of bytes at position already in buffer
	for position < size {
		blockBytes = int(min(int64(blockBytes), size-position))
		if len(buffer) < blockBytes {
			grown := make([]byte, blockBytes)
			copy(grown, buffer[:kept])
			buffer = grown
		}
		block := buffer[:blockBytes]
		if n, err := s.data.ReadAt(block[kept:], position+int64(kept)); n < blockBytes-kept {
			return fmt.Errorf("read batches at position %d: %w", position, noEOF(err))
		}
		read, err := visitBatches(block, position, visit)
		if err != nil {
			return err
		}
		position += int64(read)
		kept = copy(buffer, block[read:])
		blockBytes, err = nextRead(buffer[:kept], size-position)
		if err == nil && blockBytes > unverifiedBytesMax {
			err = s.verifyLarge(position, blockBytes, block)
			kept = 0 // verifyLarge has overwritten the block
		}
		if err != nil {
			return fmt.Errorf("read batch at position %d: %w", position, err)
		}
	}
	return nil
}

// unverifiedBytesMax is the largest buffer that a scan allocates only because of a batch's length
// field. For a larger length, the scan first verifies the batch's checksum, block by block; with a
// wrong length the verification fails. Otherwise one flipped bit in the length could make a process
// with a memory limit of one gigabyte allocate two gigabytes at every start.
const unverifiedBytesMax = 16 << 20

// checksummedFrom is the position in a batch at which the checksummed bytes begin: the first byte
// after the checksum field (docs/internals/format/segment.md).
const checksummedFrom = 21

// verifyLarge verifies the checksum of the batch of size bytes at position, block by block. It uses
// block as its buffer.
func (s *Segment) verifyLarge(position int64, size int, block []byte) error {
	header, err := s.headerIn(&view{size: position + int64(size)}, position)
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	covered := io.NewSectionReader(s.data, position+checksummedFrom, int64(size)-checksummedFrom)
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{covered},
		block); err != nil {
		return err
	}
	if sum.Sum32() != header.CRC() {
		return fmt.Errorf("%w: checksum of a batch of %d bytes does not match", record.ErrCorrupt,
			size)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// visitBatches calls visit for each complete batch in a block and returns the total size of these
// batches.
func visitBatches(block []byte, position int64, visit func(int64, record.Batch) error) (int,
	error) {
	rest := block
	for len(rest) > 0 {
		offset := position + int64(len(block)-len(rest))
		batch, following, err := record.Next(rest)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read batch at position %d: %w", offset, err)
		}
		if err := visit(offset, batch); err != nil {
			return 0, err
		}
		rest = following
	}
	return len(block) - len(rest), nil
}

// nextRead returns the size of the next block. The block must contain the whole batch that begins
// with the bytes in incomplete. It fails if the length in the batch's header exceeds left, the
// number of bytes from the batch to the end of the file.
func nextRead(incomplete []byte, left int64) (int, error) {
	if len(incomplete) < record.HeaderBytes {
		if len(incomplete) > 0 && left <= int64(len(incomplete)) {
			return 0, fmt.Errorf("%w: the last %d bytes are not a batch", record.ErrCorrupt, left)
		}
		return scanBlockBytes, nil
	}
	size, err := record.PeekSize(incomplete)
	if err != nil {
		return 0, err
	}
	if int64(size) > left {
		return 0, fmt.Errorf("%w: batch of %d bytes, %d bytes remain", record.ErrCorrupt, size,
			left)
	}
	return max(size, scanBlockBytes), nil
}
