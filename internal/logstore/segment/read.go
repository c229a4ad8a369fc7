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
	// Batch has only the 61 bytes of the header: the accessors of header fields work, Records and
	// CheckCRC do not.
	record.Batch
	Position  int64 // in the data file
	SizeBytes int   // of the whole batch
}

// end returns the position after the batch.
func (h Header) end() int64 { return h.Position + int64(h.SizeBytes) }

// HeaderAt reads the header of the batch at position. It returns io.EOF at the end of the data, and
// an error that wraps record.ErrCorrupt if no batch of a possible size begins there. The caller
// owns the header.
func (s *Segment) HeaderAt(position int64) (Header, error) {
	return s.headerIn(s.view.Load(), position)
}

func (s *Segment) headerIn(v *view, position int64) (Header, error) {
	reader := headerReader{file: s.data, size: v.size, block: make([]byte, record.HeaderBytes)}
	return reader.at(position)
}

// headerBlockBytes is the size of the reads of a walk over headers: an index interval, so that most
// lookups need one read.
const headerBlockBytes = defaultIndexIntervalBytes + record.HeaderBytes

var headerBlocks = sync.Pool{New: func() any { return new([headerBlockBytes]byte) }}

// headerReader reads headers of the first size bytes of a data file.
type headerReader struct {
	file  vfs.File
	size  int64
	block []byte
	from  int64 // position of block[0]
	held  int   // valid bytes of block
}

// at returns the header at a position, valid until the next call.
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

// fill reads a block from position on. It reads no bytes beyond size, which are not part of the
// view.
func (r *headerReader) fill(position, left int64) error {
	n := int(min(int64(len(r.block)), left))
	r.from, r.held = position, 0
	if read, err := r.file.ReadAt(r.block[:n], position); read < n {
		return fmt.Errorf("read header at position %d: %w", position, noEOF(err))
	}
	r.held = n
	return nil
}

// noEOF converts an unexpected io.EOF, because io.EOF means the end of the data.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errStop ends a walk early. The package never returns it.
var errStop = errors.New("stop")

// walk calls visit for each header from position on. The header is valid during the call.
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

// Position returns the position of the first batch whose last offset is >= offset, SizeBytes if
// there is none. It compares last offsets because after cleaning the offset itself may be in a gap
// (I43). A damaged index entry costs time only (see startBelow).
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

// EndBelow returns the end offset of the last batch that is entirely below offset, Base if there is
// none.
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

// startBelow returns the position of the last indexed batch whose last offset is <= offset, or 0.
// It also returns 0 if the index entry is damaged and points elsewhere, which is slow but correct.
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

// firstFrom returns the position of the first batch from start on that matches, the size of the
// view if there is none.
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

// PositionForTimestamp returns the position of the first batch whose maximum timestamp is >= ms; ok
// is false if there is none.
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

// startBefore returns an indexed position below which the timestamp of every batch is < ms
// (docs/format/index.md has the proof).
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

// scanBlockBytes is the size of the reads of Scan, unless a batch is larger.
const scanBlockBytes = 128 << 10

// Scan calls visit for each batch from position on, with its position. It checks lengths and not
// checksums. The batch is valid during the call only. An error of visit ends the scan and is
// returned as it is. The buffer grows to the largest batch.
func (s *Segment) Scan(position int64, visit func(position int64, b record.Batch) error) error {
	return s.scan(s.view.Load().size, position, visit)
}

// scan is Scan of the first size bytes of the file. Recover uses it before the segment has a view.
// The incomplete batch at the end of a block is kept for the next read; otherwise batches of about
// half a block would be read twice.
func (s *Segment) scan(size, position int64,
	visit func(position int64, b record.Batch) error) error {
	var buffer []byte
	blockBytes, kept := scanBlockBytes, 0 // kept: bytes at position that were already read
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

// unverifiedBytesMax is the largest buffer that is allocated by a batch's length field alone. The
// checksum of a larger batch is verified first, block by block, and fails if the length is wrong.
// Otherwise one flipped bit in the field could make a process with a limit of one gigabyte allocate
// two, at every start.
const unverifiedBytesMax = 16 << 20

// checksummedFrom is the start of the part of a batch that its checksum covers, after the checksum
// itself (docs/format/segment.md).
const checksummedFrom = 21

// verifyLarge verifies the checksum of the batch of size bytes at position, block by block. It
// overwrites block.
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

// visitBatches visits the complete batches of a block and returns their total size.
func visitBatches(block []byte, position int64, visit func(int64, record.Batch) error) (int,
	error) {
	rest := block
	for len(rest) > 0 {
		at := position + int64(len(block)-len(rest))
		batch, following, err := record.Next(rest)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read batch at position %d: %w", at, err)
		}
		if err := visit(at, batch); err != nil {
			return 0, err
		}
		rest = following
	}
	return len(block) - len(rest), nil
}

// nextRead returns the size of a block that contains the incomplete batch at its start. The length
// in the batch's header may not exceed the end of the file.
func nextRead(incomplete []byte, left int64) (int, error) {
	if len(incomplete) < record.HeaderBytes {
		if len(incomplete) > 0 && left <= int64(len(incomplete)) {
			return 0, fmt.Errorf("%w: %d bytes at the end are not a batch", record.ErrCorrupt, left)
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
