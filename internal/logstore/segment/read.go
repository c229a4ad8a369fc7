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

// Header is a batch's header and its place in the file.
type Header struct {
	// the 61 header bytes only: header accessors work, Records and CheckCRC do not
	record.Batch
	Position  int64 // in the data file
	SizeBytes int   // of the whole batch
}

// end returns the position behind the batch.
func (h Header) end() int64 { return h.Position + int64(h.SizeBytes) }

// HeaderAt reads the header of the batch that begins at position; io.EOF at the end. It wraps
// record.ErrCorrupt where no batch of a possible size begins. The header is the caller's to keep.
func (s *Segment) HeaderAt(position int64) (Header, error) {
	return s.headerIn(s.view.Load(), position)
}

func (s *Segment) headerIn(v *view, position int64) (Header, error) {
	reader := headerReader{file: s.data, size: v.size, block: make([]byte, record.HeaderBytes)}
	return reader.at(position)
}

// headerBlockBytes is how much a walk over headers reads at once: an index interval, so that a
// lookup is mostly one read.
const headerBlockBytes = defaultIndexIntervalBytes + record.HeaderBytes

var headerBlocks = sync.Pool{New: func() any { return new([headerBlockBytes]byte) }}

// headerReader reads headers of the first size bytes of a data file.
type headerReader struct {
	file  vfs.File
	size  int64
	block []byte
	from  int64 // position of block[0]
	held  int   // bytes of block that are read
}

// at reads the header at a position. It is valid until the next call.
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
		return Header{}, fmt.Errorf("%w: %d bytes at position %d, where %d are left",
			record.ErrCorrupt, size, position, left)
	}
	return Header{Batch: batch, Position: position, SizeBytes: size}, nil
}

// fill reads a block from position on, as much of it as lies below size: what lies behind is no
// part of the view.
func (r *headerReader) fill(position, left int64) error {
	wanted := int(min(int64(len(r.block)), left))
	r.from, r.held = position, 0
	if n, err := r.file.ReadAt(r.block[:wanted], position); n < wanted {
		return fmt.Errorf("read header at position %d: %w", position, noEOF(err))
	}
	r.held = wanted
	return nil
}

// noEOF makes an end of file that the size did not announce an error of its own: io.EOF is an
// answer here.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errStop ends a walk; it never leaves this package.
var errStop = errors.New("stop")

// walk calls visit for each header from position on; the header is valid during the call.
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

// Position returns where the first batch whose last offset is >= offset begins; SizeBytes if there
// is none. By the last offset, for after cleaning the offset itself may lie in a gap (reference
// I43). A damaged entry of the index costs time only (startBelow).
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

// EndBelow returns where the last batch ends that lies wholly below offset; Base if none does.
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
// An entry that does not point at such a batch is damaged: then it is 0, which is slow and right.
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
		return 0, nil //nolint:nilerr // the walk from 0 meets an error that is the file's own
	}
	return header.Position, nil
}

// firstFrom returns the position of the first batch from start on that is wanted; the size if there
// is none.
func (s *Segment) firstFrom(v *view, start int64, wanted func(Header) bool) (int64, error) {
	found := v.size
	err := s.walk(v, start, func(h Header) error {
		if wanted(h) {
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

// PositionForTimestamp returns the position of the first batch whose max timestamp is >= ms; ok is
// false if there is none.
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

// startBefore returns an indexed position before which every batch's timestamp is < ms;
// docs/format/index.md says why.
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

// scanBlockBytes is how much Scan reads at once, if no batch is larger.
const scanBlockBytes = 128 << 10

// Scan calls visit for each whole batch from position on (checked for length, not CRC), with its
// position. The batch is valid during the call only. An error of visit ends the scan and is
// returned as it is. Batches of any size are read: the buffer grows to the actual batch.
func (s *Segment) Scan(position int64, visit func(position int64, b record.Batch) error) error {
	return s.scan(s.view.Load().size, position, visit)
}

// scan is Scan below a size that the caller says: Recover has no view yet. What a block has of a
// batch that goes on behind it is kept for the next: batches of about half a block would else all
// be read twice.
func (s *Segment) scan(size, position int64,
	visit func(position int64, b record.Batch) error) error {
	var buffer []byte
	wanted, kept := scanBlockBytes, 0 // kept: bytes of the block at position that were read already
	for position < size {
		wanted = int(min(int64(wanted), size-position))
		if len(buffer) < wanted {
			grown := make([]byte, wanted)
			copy(grown, buffer[:kept])
			buffer = grown
		}
		block := buffer[:wanted]
		if n, err := s.data.ReadAt(block[kept:], position+int64(kept)); n < wanted-kept {
			return fmt.Errorf("read batches at position %d: %w", position, noEOF(err))
		}
		read, err := visitBatches(block, position, visit)
		if err != nil {
			return err
		}
		position += int64(read)
		kept = copy(buffer, block[read:])
		wanted, err = nextRead(buffer[:kept], size-position)
		if err == nil && wanted > unprovenBytesMax {
			err = s.proveBatch(position, wanted, block)
			kept = 0 // it has used the block
		}
		if err != nil {
			return fmt.Errorf("read batch at position %d: %w", position, err)
		}
	}
	return nil
}

// unprovenBytesMax is how large a buffer a batch gets on the word of its length field alone. Of a
// larger one the checksum is computed first, block by block: with a wrong length it does not match.
// Else one flipped bit in the field could ask for two gigabytes, in a process that is allowed one,
// at each start.
const unprovenBytesMax = 16 << 20

// checksummedFrom is where the part of a batch begins that its checksum covers: behind the checksum
// (docs/format/segment.md).
const checksummedFrom = 21

// proveBatch computes the checksum of the batch of size bytes at position without holding it. It
// overwrites block.
func (s *Segment) proveBatch(position int64, size int, block []byte) error {
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

// visitBatches visits the whole batches of a block and returns how many bytes they are.
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

// nextRead returns how much to read so that the batch that was cut off is in it. The batch's own
// length is believed up to the end of the file only.
func nextRead(cutOff []byte, left int64) (int, error) {
	if len(cutOff) < record.HeaderBytes {
		if len(cutOff) > 0 && left <= int64(len(cutOff)) {
			return 0, fmt.Errorf("%w: %d bytes at the end are no batch", record.ErrCorrupt, left)
		}
		return scanBlockBytes, nil
	}
	size, err := record.PeekSize(cutOff)
	if err != nil {
		return 0, err
	}
	if int64(size) > left {
		return 0, fmt.Errorf("%w: batch of %d bytes, where %d are left", record.ErrCorrupt, size,
			left)
	}
	return max(size, scanBlockBytes), nil
}
