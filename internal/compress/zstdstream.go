package compress

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdStreamWindowMax is the largest window that a Reader allocates because a frame declares it;
// the library allocates windows whole. It is the size that every decoder must support (RFC 8878,
// 3.1.1.1.2), and the largest that this package writes.
const zstdStreamWindowMax = 8 << 20

// zstdFrameHeaderBytesMax is the maximum size of a frame's header (RFC 8878, 3.1.1.1): the magic
// number (4 bytes), descriptor (1), window (1), dictionary id (4) and content size (8).
const zstdFrameHeaderBytesMax = 18

var zstdStreams sync.Pool // of *zstd.Decoder

// zstdStream decodes zstd frames in pieces up to the first frame whose window exceeds
// zstdStreamWindowMax. From that frame on it reads from the reader that openLarge returns.
type zstdStream struct {
	frames    zstdFrames
	decoder   *zstd.Decoder // decoder of frames
	openLarge func(io.Reader) (io.Reader, error)
	large     io.Reader // the result of openLarge; nil until it is called
	largeErr  error     // the error of openLarge
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
		_ = d.Reset(nil) // clears the reference to the source; it never fails
		zstdStreams.Put(d)
	}
	s := &zstdStream{frames: zstdFrames{in: in}, decoder: d, openLarge: openLarge}
	if err := d.Reset(&s.frames); err != nil {
		release()
		return nil, nil, err
	}
	return s, release, nil
}

// newZstdStream returns a decoder that runs in the caller's goroutine (concurrency 1). It starts no
// goroutine, so it need not be closed.
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

// openZstdInMemory decodes the whole source, if neither its compressed nor its decoded size exceeds
// memoryMax bytes. The memory depends only on the actual data and not on the declared window: at
// level 22 Kafka's clients declare a window of 128 MiB around a few kilobytes.
func openZstdInMemory(in io.Reader, memoryMax int) (io.Reader, error) {
	// Data that exceed the limit when compressed would exceed it when decoded.
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
// zstdStreamWindowMax, and io.EOF there. It reads the headers of frames and blocks, whose sizes
// determine the position of the next header. Bytes that it cannot parse, and all bytes after them,
// are returned unchanged, so that the decoder refuses them.
type zstdFrames struct {
	in       *bufio.Reader
	left     int64 // bytes before the next header that are still to be returned
	inFrame  bool  // the next header is that of a block
	checksum bool  // the current frame ends with a checksum
	atLarge  bool  // the next bytes of in are a frame with a window above zstdStreamWindowMax
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

// nextFrame reads the header of a frame. Like nextBlock it only peeks, so an error of the source is
// returned by the next read of its bytes.
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

// zstdWindow returns the size of the window that a decoder needs for a frame; 0 for a skippable
// frame. A frame of a single segment declares no window, because its whole content is the window.
func zstdWindow(header *zstd.Header) uint64 {
	if header.SingleSegment {
		return header.FrameContentSize
	}
	return header.WindowSize
}

// The header of a block (RFC 8878, 3.1.1.2) consists of 3 bytes: bit 0 marks the last block of a
// frame, bits 1 and 2 are the type of the block, and the other bits are its size.
const (
	zstdBlockHeaderBytes = 3
	zstdBlockRLE         = 1 // one byte is stored, and the size is that of the decoded block
	zstdBlockReserved    = 3
	zstdChecksumBytes    = 4
)

// nextBlock reads the header of a block.
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
