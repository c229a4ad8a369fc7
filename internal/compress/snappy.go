package compress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
)

// These are the constants of the xerial stream, the framing that Kafka's clients use: a header of
// 16 bytes, then blocks of {i32 BE length, raw snappy block}. Package xerial of klauspost/compress
// does not read concatenated streams, which Kafka permits.
const (
	xerialHeaderBytes = 16
	xerialBlockBytes  = 32 << 10 // uncompressed size of a block
)

var (
	xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	// The magic, then version 1, then lowest compatible version 1. Clip makes append copy the magic.
	xerialHeader = append(slices.Clip(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
)

// compressSnappy writes a xerial stream, each block directly to its final position. The s2 encoder
// writes the same format as the snappy encoder, and is faster.
func compressSnappy(dst *Chunks, src []byte) {
	copy(dst.Reserve(xerialHeaderBytes), xerialHeader)
	for chunk := range slices.Chunk(src, xerialBlockBytes) {
		room := dst.room(4 + s2.MaxEncodedLen(len(chunk)))
		block := s2.EncodeSnappy(room[4:], chunk)
		binary.BigEndian.PutUint32(room, uint32(len(block)))
		dst.extend(4 + len(block))
	}
}

// decompressSnappy reads a xerial stream. If the magic is missing, it reads one raw block, because
// some clients send one.
func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappyBlock(dst, src, limit)
	}
	start, rest := len(dst), src
	for len(rest) > 0 { // until all bytes are read, because the format has no end mark
		// Streams can be concatenated. The magic cannot be the length of a block: its first bit is set,
		// so the length would be negative.
		if bytes.HasPrefix(rest, xerialMagic) {
			if len(rest) < xerialHeaderBytes {
				return dst, fmt.Errorf("%w: short snappy header", ErrCorrupt)
			}
			rest = rest[xerialHeaderBytes:]
			continue
		}
		if len(rest) < 4 {
			return dst, fmt.Errorf("%w: short snappy block", ErrCorrupt)
		}
		// An unsigned number turns a negative length into a huge one, which is rejected.
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return dst, fmt.Errorf("%w: snappy block of %d bytes in %d", ErrCorrupt, size,
				len(rest))
		}
		var err error
		if dst, err = snappyBlock(dst, rest[:size], limit-(len(dst)-start)); err != nil {
			return dst, err
		}
		rest = rest[size:]
	}
	return dst, nil
}

// snappyBlock decodes one raw block. The sender declares the block's decoded length. Before
// snappyBlock allocates memory, it compares this length with the limit and with the maximum that a
// block of this size can decode to.
func snappyBlock(dst, block []byte, limit int) ([]byte, error) {
	size, err := snappy.DecodedLen(block)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	// A block of n bytes decodes to at most 32n bytes, because a copy element of 2 bytes produces at
	// most 64 bytes. A larger claim is wrong.
	if size > 32*len(block) {
		return dst, fmt.Errorf("%w: snappy block of %d bytes claims %d", ErrCorrupt, len(block),
			size)
	}
	if size > limit {
		return dst, ErrTooLarge
	}
	dst = slices.Grow(dst, size)
	if _, err := snappy.Decode(dst[len(dst):len(dst)+size], block); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst[:len(dst)+size], nil
}
