package compress

import (
	"bytes"
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
	// src is in memory anyway, so it does not count towards the limit.
	r := NewReader(bytes.NewReader(src), codec, max(limit, len(src)))
	defer r.Close()
	r.openLarge = openZstdLargeWindow
	return sizeOf(r, limit)
}

// openZstdLargeWindow returns a reader of zstd frames with windows up to zstdWindowMax. Its decoder
// allocates the whole window, so it is not pooled.
func openZstdLargeWindow(in io.Reader, _ int) (io.Reader, error) {
	return newZstdStream(in, zstdWindowMax, zstd.WithDecoderLowmem(true))
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
