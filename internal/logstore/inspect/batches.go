package inspect

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// batchBytesMaxDefault is the default of the BatchBytesMax options: the maximum size of a batch
// that is read into memory, both compressed and decompressed.
const batchBytesMaxDefault = 128 << 20

// readAhead is the size of the buffer through which files are read.
const readAhead = 256 << 10

// batch is a batch in a data file.
type batch struct {
	record.Batch       // only the header if tooLarge is true
	position     int64 // position of the batch in the file
	size         int   // bytes in the file
	tooLarge     bool
	// damaged is true if tooLarge is true and the checksum does not match. Such a batch was read in
	// parts.
	damaged bool
}

// batchReader reads a data file batch by batch.
type batchReader struct {
	file     vfs.File
	in       *bufio.Reader
	size     int64 // size of the file
	position int64 // position of the batch that next returns
	end      int64 // end offset of the last batch read, or the segment's base offset
	// bytesMax is the maximum size of a batch that is read as a whole. Only the header of a larger
	// batch is kept.
	bytesMax int
	buffer   []byte
}

func newBatchReader(f vfs.File, base int64, bytesMax int) (*batchReader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return &batchReader{file: f,
		in:   bufio.NewReaderSize(io.NewSectionReader(f, 0, size), readAhead),
		size: size, end: base, bytesMax: bytesMax}, nil
}

// next returns the next batch, which is valid until the next call. At the end of the file it
// returns io.EOF. If no batch begins at position, it returns an error that wraps record.ErrCorrupt,
// or record.ErrFormat if records in another message format follow. The remaining bytes cannot be
// read then.
func (r *batchReader) next() (batch, error) {
	found, err := r.read()
	if errors.Is(err, record.ErrCorrupt) {
		err = cmp.Or(record.FindOtherFormat(r.file, r.position, r.size, r.end,
			false), err)
	}
	return found, err
}

func (r *batchReader) read() (batch, error) {
	left := r.size - r.position
	header, err := r.in.Peek(int(min(left, record.HeaderBytes)))
	switch {
	case err != nil:
		return batch{}, fmt.Errorf("read at position %d: %w", r.position,
			errors.Join(err, io.ErrUnexpectedEOF))
	case left == 0:
		return batch{}, io.EOF
	case left < record.HeaderBytes:
		return batch{}, fmt.Errorf("%w: %d bytes at the end are not a batch", record.ErrCorrupt,
			left)
	}
	size, err := record.PeekSize(header)
	if err != nil {
		return batch{}, err
	}
	if int64(size) > left {
		return batch{}, fmt.Errorf("%w: batch of %d bytes, %d bytes remain", record.ErrCorrupt,
			size, left)
	}
	found := batch{position: r.position, size: size, tooLarge: size > r.bytesMax}
	needed := size
	if found.tooLarge {
		needed = record.HeaderBytes
	}
	if cap(r.buffer) < needed {
		r.buffer = make([]byte, needed)
	}
	found.Batch = r.buffer[:needed]
	if _, err := io.ReadFull(r.in, found.Batch); err != nil {
		return batch{}, fmt.Errorf("read batch at position %d: %w", r.position, err)
	}
	if found.tooLarge {
		sum := crc32.Checksum(found.Batch[checksummedFrom:], castagnoli)
		sum, err := r.checksumOfRest(size-needed, sum)
		if err != nil {
			return batch{}, fmt.Errorf("read batch at position %d: %w", r.position, err)
		}
		found.damaged = sum != found.CRC()
	}
	r.position += int64(size)
	r.end = max(r.end, found.NextOffset())
	return found, nil
}

// checksummedFrom is the position in a batch at which the checksummed bytes begin
// (docs/internals/format/batch.md).
const checksummedFrom = 21

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumOfRest reads the next n bytes in parts, and returns the checksum sum updated with these
// bytes.
func (r *batchReader) checksumOfRest(n int, sum uint32) (uint32, error) {
	for n > 0 {
		part, err := r.in.Peek(min(n, readAhead))
		if err != nil {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		sum = crc32.Update(sum, castagnoli, part)
		if _, err := r.in.Discard(len(part)); err != nil {
			return 0, err
		}
		n -= len(part)
	}
	return sum, nil
}
