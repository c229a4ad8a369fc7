package compress

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Size returns how many bytes src decompresses to, or ErrTooLarge if they exceed limit. It accepts
// the data that Decompress accepts.
//
// Size holds a piece of the data at a time, as a Reader does, so a few kilobytes that decompress to
// gigabytes cost time and no memory. Two kinds of data need more: it holds a snappy block, of at
// most limit bytes, and the window of a zstd frame, of at most 128 MiB.
func Size(src []byte, codec Codec, limit int) (int, error) {
	if codec == Zstd {
		var header zstd.Header
		if header.Decode(src) == nil && header.WindowSize > zstdStreamWindowMax {
			return zstdSizeLarge(src, limit)
		}
	}
	// src is in memory anyway, so it does not count towards the limit.
	r := NewReader(bytes.NewReader(src), codec, max(limit, len(src)))
	defer r.Close()
	size, err := sizeOf(r, limit)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) { // of a frame after the first
		return zstdSizeLarge(src, limit)
	}
	return size, err
}

// zstdSizeLarge is Size of frames with windows above zstdStreamWindowMax. Its decoder allocates the
// whole window, so it is not pooled.
func zstdSizeLarge(src []byte, limit int) (int, error) {
	r := Reader{codec: Zstd}
	d, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderMaxWindow(zstdWindowMax),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return 0, r.classify(err)
	}
	defer d.Close()
	r.out = d
	return sizeOf(&r, limit)
}

// sizeOf counts what a reader decompresses.
func sizeOf(r *Reader, limit int) (int, error) {
	var piece [4096]byte
	for size := 0; ; {
		n, err := r.Read(piece[:])
		if size += n; size > limit {
			return 0, ErrTooLarge
		}
		if err == io.EOF { //nolint:errorlint // only a plain io.EOF is the end
			return size, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
