package compress

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdStreamWindowMax is the largest declared window for which a Reader allocates memory; the
// library allocates a window as a whole. Every decoder must support this size (RFC 8878,
// 3.1.1.1.2), and this package writes no larger window.
const zstdStreamWindowMax = 8 << 20

// zstdFrameHeaderBytesMax is the maximum size of a frame header (RFC 8878, 3.1.1.1): the magic
// number (4 bytes), descriptor (1), window (1), dictionary id (4) and content size (8).
const zstdFrameHeaderBytesMax = 18

var zstdStreams sync.Pool // elements are *zstd.Decoder

// zstdStream decodes zstd frames in pieces, up to the first frame whose window exceeds
// zstdStreamWindowMax. From that frame on, it reads from the reader that openLarge returns.
type zstdStream struct {
	frames    zstdFrames
	decoder   *zstd.Decoder // decoder of the frames before the first large one
	openLarge func(io.Reader) (io.Reader, error)
	large     io.Reader // reader that openLarge returned; nil until openLarge is called
	largeErr  error     // error that openLarge returned
}

// openZstd returns a reader of all frames, and a function that returns its decoder to the pool.
func openZstd(in *bufio.Reader, openLarge func(io.Reader) (io.Reader, error)) (io.Reader, func(),
	error) {
	d, pooled := zstdStreams.Get().(*zstd.Decoder)
	if !pooled {
		var err error
		if d, err = newZstdStream(nil, zstdStreamWindowMax); err != nil {
			return nil, nil, err
		}
	}
	release := func() {
		_ = d.Reset(nil) // clears the reference to the source; Reset(nil) never fails
		zstdStreams.Put(d)
	}
	s := &zstdStream{frames: zstdFrames{in: in}, decoder: d, openLarge: openLarge}
	if err := d.Reset(&s.frames); err != nil {
		release()
		return nil, nil, err
	}
	return s, release, nil
}

// newZstdStream returns a decoder that runs in the caller's goroutine (concurrency 1). The decoder
// starts no goroutine, so callers do not have to close it.
func newZstdStream(in io.Reader, windowMax uint64, more ...zstd.DOption) (*zstd.Decoder, error) {
	return zstd.NewReader(in, append(more, zstd.WithDecoderMaxWindow(windowMax),
		zstd.WithDecoderConcurrency(1))...)
}

// Read implements io.Reader.
func (s *zstdStream) Read(p []byte) (int, error) {
	if s.large == nil && s.largeErr == nil {
		n, err := s.decoder.Read(p)
		if err != io.EOF || !s.frames.atLarge { //nolint:errorlint // only a plain io.EOF is the end
			return n, err
		}
		s.large, s.largeErr = s.openLarge(s.frames.in)
		if n > 0 {
			return n, nil
		}
	}
	if s.largeErr != nil {
		return 0, s.largeErr
	}
	return s.large.Read(p)
}

// openZstdInMemory decodes the whole source, and fails if its compressed or its decoded size
// exceeds memoryMax bytes. The memory depends only on the actual data, and not on the declared
// window: at level 22 Kafka's clients declare a window of 128 MiB even for a few kilobytes.
func openZstdInMemory(in io.Reader, memoryMax int) (io.Reader, error) {
	// Data whose compressed size exceeds the limit would also exceed it when decoded.
	src, err := readLimited(nil, in, memoryMax)
	if err != nil {
		return nil, err
	}
	out, err := decompressZstd(nil, src, memoryMax)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(out), nil
}

// zstdFrames returns the bytes of a zstd source up to the first frame whose window exceeds
// zstdStreamWindowMax, and then io.EOF. It reads the headers of frames and blocks, whose sizes
// determine the position of the next header. If it cannot parse some bytes, it returns them and all
// later bytes unchanged, so that the decoder refuses them.
type zstdFrames struct {
	in       *bufio.Reader
	left     int64 // number of bytes still to be returned before the next header
	inFrame  bool  // true if the next header belongs to a block
	checksum bool  // true if the current frame ends with a checksum
	atLarge  bool  // true if the next bytes of in are a frame with a window above zstdStreamWindowMax
}

// Read implements io.Reader.
func (f *zstdFrames) Read(p []byte) (int, error) {
	if f.left == 0 && !f.atLarge {
		if f.inFrame {
			f.nextBlock()
		} else {
			f.nextFrame()
		}
	}
	if f.atLarge {
		return 0, io.EOF
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// nextFrame reads a frame header. Like nextBlock, it only peeks at the bytes, so the next read of
// these bytes returns an error of the source.
func (f *zstdFrames) nextFrame() {
	var header zstd.Header
	begin, _ := f.in.Peek(zstdFrameHeaderBytesMax)
	if header.Decode(begin) != nil {
		f.left = math.MaxInt64
		return
	}
	if zstdWindow(&header) > zstdStreamWindowMax {
		f.atLarge = true
		return
	}
	f.left = int64(header.HeaderSize) + int64(header.SkippableSize)
	f.inFrame, f.checksum = !header.Skippable, header.HasCheckSum
}

// zstdWindow returns the size of the window that a decoder needs for a frame, or 0 for a skippable
// frame. A single-segment frame declares no window, because its whole content is the window.
func zstdWindow(header *zstd.Header) uint64 {
	if header.SingleSegment {
		return header.FrameContentSize
	}
	return header.WindowSize
}

// A block header (RFC 8878, 3.1.1.2) consists of 3 bytes. Bit 0 marks the last block of a frame,
// bits 1 and 2 are the block's type, and the other bits are its size.
const (
	zstdBlockHeaderBytes = 3
	zstdBlockRLE         = 1 // one byte is stored; the size field is the size of the decoded block
	zstdBlockReserved    = 3
	zstdChecksumBytes    = 4
)

// nextBlock reads a block header.
func (f *zstdFrames) nextBlock() {
	begin, err := f.in.Peek(zstdBlockHeaderBytes)
	if err != nil {
		f.left = math.MaxInt64
		return
	}
	header := uint32(begin[0]) | uint32(begin[1])<<8 | uint32(begin[2])<<16
	size := int64(header >> 3)
	switch header >> 1 & 3 {
	case zstdBlockRLE:
		size = 1
	case zstdBlockReserved:
		f.left = math.MaxInt64
		return
	}
	f.left = zstdBlockHeaderBytes + size
	if last := header&1 != 0; last {
		f.inFrame = false
		if f.checksum {
			f.left += zstdChecksumBytes
		}
	}
}
