package compress

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// lz4Fast is the level that selects the fast compressor. All other levels select the
// high-compression one. lz4Fast is the default level, as in Kafka.
const lz4Fast = 9

// These are the constants of an LZ4 frame as Kafka writes it. The framing is implemented here
// because the library's writer is made for large streams. A batch is small: this code needs no
// goroutines and no buffers of 4 MiB, and it applies the limit before each block.
const (
	lz4Magic      = 0x184D2204
	lz4BlockBytes = 64 << 10
	lz4StoredRaw  = 1 << 31 // bit in a block's size field that marks an uncompressed block
	// lz4HeaderBytesMax is the maximum size of a frame header: magic, FLG, BD, content size, checksum.
	lz4HeaderBytesMax = 4 + 2 + 8 + 1
)

// lz4Header contains the magic, FLG 0x60 (version 1, independent blocks, no checksums, no content
// size), BD 0x40 (64 KiB blocks), and the header checksum, which is the second byte of xxHash32
// over FLG and BD.
var lz4Header = []byte{0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82}

var (
	lz4FastPool sync.Pool // elements are *lz4.Compressor
	lz4HighPool sync.Pool // elements are *lz4.CompressorHC
)

// compressLZ4 writes one frame, each block directly to its final position. It stores a block raw if
// compression does not shrink it, as the format requires. So the frame exceeds its contents by at
// most four bytes per block.
func compressLZ4(dst *Chunks, src []byte, level int) error {
	compressBlock, release := lz4Compressor(level)
	defer release()
	copy(dst.Reserve(len(lz4Header)), lz4Header)
	for chunk := range slices.Chunk(src, lz4BlockBytes) {
		bound := lz4.CompressBlockBound(len(chunk))
		room := dst.room(4 + bound)
		size, err := compressBlock(chunk, room[4:4+bound])
		if err != nil {
			return fmt.Errorf("compress with lz4: %w", err)
		}
		word := uint32(size)
		if size == 0 || size >= len(chunk) {
			size = copy(room[4:], chunk)
			word = uint32(size) | lz4StoredRaw
		}
		binary.LittleEndian.PutUint32(room, word)
		dst.extend(4 + size)
	}
	clear(dst.Reserve(4)) // the EndMark
	return nil
}

// lz4Compressor returns the block function of a pooled compressor for level, and a function that
// returns the compressor to the pool.
func lz4Compressor(level int) (block func(src, dst []byte) (int, error), release func()) {
	if level == lz4Fast {
		c, pooled := lz4FastPool.Get().(*lz4.Compressor)
		if !pooled {
			c = new(lz4.Compressor)
		}
		return c.CompressBlock, func() { lz4FastPool.Put(c) }
	}
	c, pooled := lz4HighPool.Get().(*lz4.CompressorHC)
	if !pooled {
		c = new(lz4.CompressorHC)
	}
	// The library accepts any search depth, and not only the depths that it names.
	c.Level = lz4.CompressionLevel(lz4Attempts(level))
	return c.CompressBlock, func() { lz4HighPool.Put(c) }
}

// lz4Frame is the decoded header of a frame.
type lz4Frame struct {
	// blockBytesMax is the maximum decoded size of a block, 64 KiB to 4 MiB. It bounds the memory
	// that is allocated for a block.
	blockBytesMax int
	blockChecksum bool // true if each block is followed by four bytes, the checksum of its stored form
}

// parseLZ4Header returns the frame's header and the bytes after it. It rejects reserved bits, other
// versions, dependent blocks and dictionaries, because no Kafka client writes such frames, and
// Kafka's reader rejects them too.
func parseLZ4Header(src []byte) (lz4Frame, []byte, error) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return lz4Frame{}, nil, fmt.Errorf("%w: not an lz4 frame", ErrCorrupt)
	}
	flags, block := src[4], src[5]
	if flags>>6 != 1 || flags&0b11 != 0 || flags&0x20 == 0 {
		return lz4Frame{}, nil, fmt.Errorf("%w: lz4 frame flags %#x", ErrCorrupt, flags)
	}
	if block&0x8f != 0 || block>>4 < 4 {
		return lz4Frame{}, nil, fmt.Errorf("%w: lz4 block descriptor %#x", ErrCorrupt, block)
	}
	end := 6
	if flags&0x08 != 0 {
		end += 8 // skips the content size, which never determines how much memory is allocated
	}
	if len(src) <= end {
		return lz4Frame{}, nil, fmt.Errorf("%w: short lz4 header", ErrCorrupt)
	}
	if byte(xxHash32(src[4:end])>>8) != src[end] {
		return lz4Frame{}, nil, fmt.Errorf("%w: lz4 header checksum", ErrCorrupt)
	}
	return lz4Frame{blockBytesMax: 1 << (8 + 2*(block>>4)), blockChecksum: flags&0x10 != 0},
		src[end+1:], nil
}

// decompressLZ4 reads one frame and stops at its EndMark. Like Kafka, it ignores the content
// checksum after the EndMark, because the batch has its own checksum.
func decompressLZ4(dst, src []byte, limit int) ([]byte, error) {
	frame, rest, err := parseLZ4Header(src)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	for {
		if len(rest) < 4 {
			return dst, fmt.Errorf("%w: lz4 frame without EndMark", ErrCorrupt)
		}
		word := binary.LittleEndian.Uint32(rest)
		if word == 0 {
			return dst, nil
		}
		// A raw block, too, must not exceed the frame's block size.
		size, trailer := int(word&^lz4StoredRaw), 0
		if frame.blockChecksum {
			trailer = 4
		}
		rest = rest[4:]
		if size > frame.blockBytesMax || size+trailer > len(rest) {
			return dst, fmt.Errorf("%w: lz4 block of %d bytes in %d", ErrCorrupt, size, len(rest))
		}
		block := rest[:size]
		if frame.blockChecksum && binary.LittleEndian.Uint32(rest[size:]) != xxHash32(block) {
			return dst, fmt.Errorf("%w: lz4 block checksum", ErrCorrupt)
		}
		rest = rest[size+trailer:]
		left := limit - (len(dst) - start)
		if word&lz4StoredRaw != 0 {
			dst, err = copyLimited(dst, block, left)
		} else {
			dst, err = lz4Block(dst, block, frame.blockBytesMax, left)
		}
		if err != nil {
			return dst, err
		}
	}
}

// lz4Block decodes one block. It may allocate one block more than the limit, because the decoder
// does not distinguish "too long" from "corrupt".
func lz4Block(dst, block []byte, bytesMax, limit int) ([]byte, error) {
	room := min(bytesMax, 255*len(block)) // one byte of a match length encodes at most 255 bytes
	dst = slices.Grow(dst, room)
	size, err := lz4.UncompressBlock(block, dst[len(dst):len(dst)+room])
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if size > limit {
		return dst, ErrTooLarge
	}
	return dst[:len(dst)+size], nil
}
