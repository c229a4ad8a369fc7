package compress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// blocks is a reader of a format that is decoded block by block. It decodes a block only when the
// caller has read all previous blocks, and reuses their memory. If the caller stops reading, blocks
// does not decode the remaining blocks.
type blocks struct {
	// next decodes the next block and appends it to dst; it returns io.EOF after the last block.
	next func(dst []byte) ([]byte, error)
	all  []byte // the decoded bytes of the last block
	rest []byte // the unread part of the field all
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		var err error
		if b.all, err = b.next(b.all[:0]); err != nil {
			return 0, err
		}
		// Skip a block without bytes, because Read must not return 0, nil.
		b.rest = b.all
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// readBlock reads n bytes into dst. It enlarges dst as data arrive, because the sender may claim
// any n.
func readBlock(dst []byte, in io.Reader, n int) ([]byte, error) {
	dst, err := readLimited(dst[:0], io.LimitReader(in, int64(n)), n)
	// readLimited returns no error if the source ends before n bytes, so compare the length.
	if err == nil && len(dst) < n {
		err = io.ErrUnexpectedEOF
	}
	return dst, err
}

// lz4Stream decodes one LZ4 frame. It follows the rules of decompressLZ4.
type lz4Stream struct {
	in     *bufio.Reader
	frame  lz4Frame // header of the frame; its blockBytesMax is 0 until the header has been read
	stored []byte   // the block in its stored form
}

// next decodes the next block and appends it to dst; it returns io.EOF at the EndMark.
func (s *lz4Stream) next(dst []byte) ([]byte, error) {
	if s.frame.blockBytesMax == 0 {
		if err := s.readHeader(); err != nil {
			return dst, err
		}
	}
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return dst, fmt.Errorf("%w: lz4 frame without EndMark", ErrCorrupt)
	}
	word := binary.LittleEndian.Uint32(head[:])
	if word == 0 {
		return dst, io.EOF
	}
	size := int(word &^ lz4StoredRaw)
	if size > s.frame.blockBytesMax {
		return dst, fmt.Errorf("%w: lz4 block of %d bytes", ErrCorrupt, size)
	}
	var err error
	if s.stored, err = readBlock(s.stored, s.in, size); err != nil {
		return dst, err
	}
	if s.frame.blockChecksum {
		if _, err := io.ReadFull(s.in, head[:]); err != nil ||
			binary.LittleEndian.Uint32(head[:]) != xxHash32(s.stored) {
			return dst, fmt.Errorf("%w: lz4 block checksum", ErrCorrupt)
		}
	}
	if word&lz4StoredRaw != 0 {
		return append(dst, s.stored...), nil
	}
	// The sum of all block sizes has no limit, because the caller decides how much it reads.
	return lz4Block(dst, s.stored, s.frame.blockBytesMax, s.frame.blockBytesMax)
}

// readHeader reads the frame's header.
func (s *lz4Stream) readHeader() error {
	// Peek may return fewer bytes and an error. The next read returns the same error.
	begin, _ := s.in.Peek(lz4HeaderBytesMax)
	frame, rest, err := parseLZ4Header(begin)
	if err != nil {
		return err
	}
	s.frame = frame
	_, err = s.in.Discard(len(begin) - len(rest))
	return err
}

// snappyStream decodes a xerial stream or one raw block. It follows the rules of decompressSnappy.
// Neither format limits the size of a block, and some clients put all data into one block, so
// memoryMax limits the size.
type snappyStream struct {
	in        *bufio.Reader
	memoryMax int
	begun     bool
	raw       bool   // true if the input is one raw block without the xerial header
	stored    []byte // the block in its stored form
}

// next decodes the next block and appends it to dst; it returns io.EOF after the last block.
func (s *snappyStream) next(dst []byte) ([]byte, error) {
	if s.raw {
		return dst, io.EOF
	}
	for {
		begin, _ := s.in.Peek(xerialHeaderBytes)
		// The magic can also follow a block, because streams can be concatenated.
		magic := bytes.HasPrefix(begin, xerialMagic)
		if !s.begun && !magic {
			s.raw = true
			return s.nextRaw(dst)
		}
		s.begun = true
		if !magic {
			return s.nextBlock(dst)
		}
		if _, err := s.in.Discard(xerialHeaderBytes); err != nil {
			return dst, fmt.Errorf("%w: short snappy header", ErrCorrupt)
		}
	}
}

// nextRaw decodes the rest of the input as one block, because a raw block has no end mark.
func (s *snappyStream) nextRaw(dst []byte) ([]byte, error) {
	var err error
	if s.stored, err = readLimited(s.stored[:0], s.in, s.memoryMax); err != nil {
		return dst, err
	}
	return snappyBlock(dst, s.stored, s.memoryMax)
}

// nextBlock decodes a block of a xerial stream.
func (s *snappyStream) nextBlock(dst []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); errors.Is(err, io.EOF) {
		return dst, io.EOF
	} else if err != nil {
		return dst, fmt.Errorf("%w: short snappy block", ErrCorrupt)
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	// Compression enlarges a block only slightly. So a compressed block above the limit decodes to a
	// block of about that size, which is too large as well.
	if size > int64(s.memoryMax) {
		return dst, fmt.Errorf("%w: snappy block of %d bytes", ErrTooLarge, size)
	}
	var err error
	if s.stored, err = readBlock(s.stored, s.in, int(size)); err != nil {
		return dst, err
	}
	return snappyBlock(dst, s.stored, s.memoryMax)
}
