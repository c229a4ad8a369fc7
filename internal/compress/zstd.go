package compress

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowMax is the largest window that a frame may declare: 128 MiB, the default limit of
// zstd's own tools.
const zstdWindowMax = 128 << 20

// zstdBlockBytes is the maximum decoded size of a block (RFC 8878, 3.1.1.2).
const zstdBlockBytes = 128 << 10

// zstdWindows contains the windows that this package declares. compressZstd chooses the first that
// is at least as large as the input, because a reader allocates the whole window even for a small
// batch. The element 0 selects the level's window, but at most zstdStreamWindowMax.
var zstdWindows = [...]int{64 << 10, 1 << 20, 0}

// zstdWriters keeps encoders by speed and window, because Reset can change neither. The library has
// four speeds. zstd's levels are mapped to them, so neighbouring levels may give the same bytes.
// elements are *zstd.Encoder
var zstdWriters [zstd.SpeedBestCompression + 1][len(zstdWindows)]sync.Pool

// zstdReader decodes whole inputs. Several goroutines can use it at the same time. The library's
// own size limit is disabled, because the capacity of the destination limits the decoded size.
var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdWindowMax),
		zstd.WithDecodeAllCapLimit(true),
		// Allow as many concurrent decodes as processors; the library's default is at most four.
		zstd.WithDecoderConcurrency(0))
})

// compressZstd writes one frame as a stream encoder does, without content size and checksum.
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
	// Without Flush the library writes a single block with the content size in the header.
	if err := w.Flush(); err != nil {
		return fmt.Errorf("compress with zstd: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with zstd: %w", err)
	}
	return nil
}

// newZstdWriter returns an encoder that runs in the caller's goroutine (concurrency 1). Like
// Kafka's, it writes no checksum, and it writes a frame even for empty input. It limits the window
// to 8 MiB, because decoders do not have to support more. The library's own windows for its two
// highest speeds would be 16 and 32 MiB.
func newZstdWriter(speed zstd.EncoderLevel, window int) (*zstd.Encoder, error) {
	options := []zstd.EOption{
		zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithZeroFrames(true),
		// Text without repetition, such as random letters or encoded ids, still has fewer than eight bits
		// of entropy per byte, so compress it, as libzstd does. The library's two fastest levels would
		// store it raw.
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

// decompressZstd reads concatenated and skippable frames. It does not allocate memory by the size
// in a frame's header, because the sender may claim any size. Decoding starts with a small
// destination. If the data do not fit, decoding is repeated with a destination four times as large,
// up to the limit plus one block.
//
// The library's own limit (WithDecoderMaxMemory) cannot be used: it also rejects every frame that
// declares a window above the limit, and clients declare 8 MiB for one kilobyte of data. The
// library does not report clearly that the destination was too small. But an error must have
// another cause if a whole block would still fit. The largest destination has room for a block
// beyond the limit, so that decoding exceeds the limit before the destination is full.
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
