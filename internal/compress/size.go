package compress

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Size returns how many bytes src decompresses to, or ErrTooLarge if the number exceeds limit. It
// accepts the same data as Decompress.
//
// Size holds one piece of the decompressed data at a time. So a few kilobytes that decompress to
// gigabytes need time, but little memory. The largest pieces are a snappy block of at most limit
// bytes, and the window of a zstd frame of at most 128 MiB.
func Size(src []byte, codec Codec, limit int) (int, error) {
	// A Reader applies memoryMax to compressed blocks too. Because src is already in memory, a
	// compressed block may be as long as src, even if limit is less.
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

// sizeOf returns the number of bytes that r returns, or ErrTooLarge if the number exceeds limit.
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
