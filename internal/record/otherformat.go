package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// ErrFormat is wrapped by every error that means that valid records are in another message format
// than v2. Such records are not corrupt: another program has written them, so their file must not
// be changed.
var ErrFormat = errors.New("unsupported message format")

// These fields have the same position in every message format: an offset, the number of bytes after
// the length field, and the magic byte, which is the number of the format. In the formats v0 and
// v1, the checksum precedes the magic byte and covers the bytes from the magic byte on.
const (
	frameHeaderBytes = magicAt + 1
	oldCRCAt         = 12
	oldLengthMin     = 14 // size of checksum, magic, attributes, key length and value length
)

// frame contains the fields that all message formats share; it describes a batch, or a message of
// format v0 or v1. For a compressed message of format v0 or v1, the offset is the offset of its
// last record.
type frame struct {
	offset int64
	length int64 // number of bytes after the length field
	magic  int8
}

func (f frame) size() int64 { return lengthEnd + f.length }

// FindOtherFormat searches the first size bytes of a data file for records in another message
// format than v2. It starts at position, where a record batch or a message must begin. It follows
// the length fields of batches and messages, whether valid or damaged, and stops at the first
// length that cannot be right. If it finds no such records, it returns nil. Otherwise it returns an
// error that wraps ErrFormat and contains offset and position. If firstOnly is true, it examines
// only one batch or message.
//
// After a crash, arbitrary bytes at the end of a file must not count as records. A message of
// format v0 or v1 therefore counts only if its checksum matches. The position of the checksum in a
// later format is unknown. Such a batch counts if its offset is less than 2^31 above next, the
// offset at which the preceding batches end.
func FindOtherFormat(file io.ReaderAt, position, size, next int64, firstOnly bool) error {
	header := make([]byte, HeaderBytes)
	for position+frameHeaderBytes <= size {
		n := min(size-position, HeaderBytes)
		if read, err := file.ReadAt(header[:n], position); int64(read) < n {
			return fmt.Errorf("read header at position %d: %w", position, noEOF(err))
		}
		f := frame{offset: int64(binary.BigEndian.Uint64(header)),
			length: int64(int32(binary.BigEndian.Uint32(header[lengthAt:]))),
			magic:  int8(header[magicAt])}
		if f.length < oldLengthMin || f.size() > size-position || f.magic < 0 {
			return nil
		}
		found, err := f.otherFormat(file, position, next)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%w: offset %d at position %d has format v%d of %s; only v2 is supported",
				ErrFormat, f.offset, position, f.magic, f.writer())
		}
		if f.magic == magic && n == HeaderBytes {
			next = max(next, Batch(header).NextOffset())
		}
		if position += f.size(); firstOnly {
			return nil
		}
	}
	return nil
}

// writer names the kind of program that writes the frame's format.
func (f frame) writer() string {
	if f.magic > magic {
		return "a later version"
	}
	return "Apache Kafka before 0.11"
}

// otherFormat reports whether the frame is a valid record in another format than v2.
func (f frame) otherFormat(file io.ReaderAt, position, next int64) (bool, error) {
	switch {
	case f.magic == magic:
		return false, nil
	case f.magic > magic:
		return f.offset >= next && f.offset-next <= math.MaxInt32, nil
	}
	stored := make([]byte, magicAt-oldCRCAt)
	if _, err := file.ReadAt(stored, position+oldCRCAt); err != nil {
		return false, fmt.Errorf("read checksum at position %d: %w", position, noEOF(err))
	}
	sum := crc32.NewIEEE()
	covered := io.NewSectionReader(file, position+magicAt, f.size()-magicAt)
	if read, err := io.Copy(sum, covered); err != nil || read < f.size()-magicAt {
		return false, fmt.Errorf("read message at position %d: %w", position, noEOF(err))
	}
	return sum.Sum32() == binary.BigEndian.Uint32(stored), nil
}

// noEOF converts nil and io.EOF to io.ErrUnexpectedEOF, because bytes within the file's known size
// were not read.
func noEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
