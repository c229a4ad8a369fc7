package compress

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowMax is the largest window a frame may ask for: 128 MiB, as far as zstd's own tools go
// unasked.
const zstdWindowMax = 128 << 20

// zstdBlockBytes is the most one block of a frame decodes to (RFC 8878, 3.1.1.2).
const zstdBlockBytes = 128 << 10

// zstdWindows are the windows we write with: a small batch in a small window, because a reader
// allocates the window whole. A zero stands for the level's own, or zstdStreamWindowMax if that is
// less.
var zstdWindows = [...]int{64 << 10, 1 << 20, 0}

// zstdWriters keeps encoders by speed and window, neither of which Reset can change. The library
// has four speeds; zstd's levels are mapped to them, so neighbouring levels may give the same
// bytes.
var zstdWriters [zstd.SpeedBestCompression + 1][len(zstdWindows)]sync.Pool // of *zstd.Encoder

// zstdReader decodes whole inputs only, which it may do concurrently. Its own size limit is off:
// the capacity of the destination is the limit.
var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdWindowMax),
		zstd.WithDecodeAllCapLimit(true),
		// as many at once as there are processors; the library's own bound is four
		zstd.WithDecoderConcurrency(0))
})

// compressZstd writes one frame as a stream does: without the content's size, without a checksum.
func compressZstd(dst *Chunks, src []byte, level int) error {
	speed, _, _ := zstdSpeed(level)
	window := slices.IndexFunc(zstdWindows[:],
		func(size int) bool { return size == 0 || len(src) <= size })
	pool := &zstdWriters[speed][window]
	w, pooled := pool.Get().(*zstd.Encoder)
	if !pooled {
		var err error
		if w, err = newZstdWriter(speed, zstdWindows[window]); err != nil {
			return fmt.Errorf("compress with zstd: %w", err)
		}
	}
	w.Reset(dst)
	defer pool.Put(w)
	if _, err := w.Write(src); err != nil {
		return fmt.Errorf("compress with zstd: %w", err)
	}
	// Without this the library writes a frame of one block with its size in the header.
	if err := w.Flush(); err != nil {
		return fmt.Errorf("compress with zstd: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with zstd: %w", err)
	}
	return nil
}

// newZstdWriter makes an encoder that works in the caller's goroutine (concurrency 1), writes no
// checksum, as Kafka does, and writes a frame also for no bytes at all. The two best levels' own
// windows are 16 and 32 MiB, which is more than a decoder has to have, and than any batch is that
// is not huge.
func newZstdWriter(speed zstd.EncoderLevel, window int) (*zstd.Encoder, error) {
	options := []zstd.EOption{
		zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithZeroFrames(true),
		// As libzstd does: text that repeats nothing (random letters, encoded ids) still has fewer
		// than eight bits a byte. The library's two fastest levels would store it as it is.
		zstd.WithAllLitEntropyCompression(true),
	}
	if window == 0 && speed > zstd.SpeedDefault {
		window = zstdStreamWindowMax
	}
	if window > 0 {
		options = append(options, zstd.WithWindowSize(window))
	}
	return zstd.NewWriter(nil, options...)
}

// decompressZstd reads concatenated and skippable frames. The size in a frame's header is a claim
// of the sender's, so the room grows with what was really decoded: four times what did not suffice,
// up to the limit and one block.
//
// The library's own limit (WithDecoderMaxMemory) is of no use: it also refuses every window above
// it, and a window of 8 MiB around one kilobyte is what clients send. Nor does it say clearly that
// the room was too small; but it cannot fail for that reason while a whole block still fits, and at
// the last try a block fits beyond the limit.
func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	r, err := zstdReader()
	if err != nil {
		return dst, fmt.Errorf("decompress with zstd: %w", err)
	}
	last := limit + zstdBlockBytes
	room := min(last, max(4*len(src), 2*zstdBlockBytes, cap(dst)-len(dst)))
	for {
		dst = slices.Grow(dst, room)
		out, err := r.DecodeAll(src, dst[:len(dst):len(dst)+room])
		decoded := len(out) - len(dst)
		switch {
		case err == nil && decoded <= limit:
			return out, nil
		case decoded > limit:
			return dst, ErrTooLarge
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded) && decoded+zstdBlockBytes <= room:
			return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
		case room == last:
			return dst, ErrTooLarge
		}
		room = min(last, 4*room)
	}
}
