package compress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// blocks reads a format that is decoded block by block. A block is decoded when somebody reads of
// it, and into the memory of the one before: a reader that stops pays for no more than it saw.
type blocks struct {
	// decodes a block over dst, which may be empty; io.EOF when there is none
	next func(dst []byte) ([]byte, error)
	all  []byte // the last block
	rest []byte // what of it was not read yet
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		var err error
		if b.all, err = b.next(b.all[:0]); err != nil {
			return 0, err
		}
		// of a block without bytes nothing, and then it is the next one's turn: 0, nil would be no
		// answer
		b.rest = b.all
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// readBlock reads n bytes over dst. It grows by what has come: n is a claim.
func readBlock(dst []byte, in io.Reader, n int) ([]byte, error) {
	dst, err := readLimited(dst[:0], io.LimitReader(in, int64(n)), n)
	// A limited reader's end is an end like any other: what is missing has to be counted.
	if err == nil && len(dst) < n {
		err = io.ErrUnexpectedEOF
	}
	return dst, err
}

// lz4Stream reads one frame, as decompressLZ4 does.
type lz4Stream struct {
	in     *bufio.Reader
	frame  lz4Frame // with blockBytesMax 0 until the header was read
	stored []byte   // the block as it is stored
}

// next decodes a block; io.EOF at the EndMark.
func (s *lz4Stream) next(dst []byte) ([]byte, error) {
	if s.frame.blockBytesMax == 0 {
		if err := s.begin(); err != nil {
			return dst, err
		}
	}
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return dst, fmt.Errorf("%w: lz4 frame without end", ErrCorrupt)
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
	// There is no limit on all blocks together: the one who reads has stopped by now, or wants
	// them.
	return lz4Block(dst, s.stored, s.frame.blockBytesMax, s.frame.blockBytesMax)
}

// begin reads the frame's header.
func (s *lz4Stream) begin() error {
	// what there is; an error comes again with the next read
	begin, _ := s.in.Peek(lz4HeaderBytesMax)
	frame, rest, err := parseLZ4Header(begin)
	if err != nil {
		return err
	}
	s.frame = frame
	_, err = s.in.Discard(len(begin) - len(rest))
	return err
}

// snappyStream reads a xerial stream or one bare block, as decompressSnappy does. Neither bounds a
// block: clients choose how much they put into one, and some put all, so here it is held that
// counts.
type snappyStream struct {
	in     *bufio.Reader
	held   int
	begun  bool
	bare   bool
	stored []byte // the block as it is stored
}

// next decodes a block; io.EOF behind the last.
func (s *snappyStream) next(dst []byte) ([]byte, error) {
	if s.bare {
		return dst, io.EOF
	}
	for {
		begin, _ := s.in.Peek(xerialHeaderBytes)
		// also between blocks: streams may be concatenated
		magic := bytes.HasPrefix(begin, xerialMagic)
		if !s.begun && !magic {
			s.bare = true
			return s.nextBare(dst)
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

// nextBare decodes all there is as one block: its format has no other end.
func (s *snappyStream) nextBare(dst []byte) ([]byte, error) {
	var err error
	if s.stored, err = readLimited(s.stored[:0], s.in, s.held); err != nil {
		return dst, err
	}
	return snappyBlock(dst, s.stored, s.held)
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
	// Packed it is smaller than what it decodes to, or hardly larger: what is too large packed is
	// too large.
	if size > int64(s.held) {
		return dst, fmt.Errorf("%w: snappy block of %d bytes", ErrTooLarge, size)
	}
	var err error
	if s.stored, err = readBlock(s.stored, s.in, int(size)); err != nil {
		return dst, err
	}
	return snappyBlock(dst, s.stored, s.held)
}
