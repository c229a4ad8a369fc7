package compress

import (
	"fmt"
	"io"
	"slices"
)

// Func is the type of the function To. Package record accepts a Func as a parameter, because it
// reads no clock itself: its caller can pass a function that measures how long To takes.
type Func func(dst *Chunks, src []byte, codec Codec, level int) error

// To appends src, compressed at level (or LevelDefault), to dst. The codec writes directly into
// dst's chunks, or appends its own block buffer to them. So each byte of the codec's output is
// copied at most once on this path (docs/internals/format/copies.md).
//
// To fails if the codec is unknown, or if level is outside the codec's range; the error names the
// range. The codecs themselves do not fail, because they write to memory. After an error the
// contents of dst after its old length are undefined. Different versions of this program may
// compress the same input to different bytes.
func To(dst *Chunks, src []byte, codec Codec, level int) error {
	if !codec.Valid() {
		return fmt.Errorf("compress with %s: unknown codec", codec)
	}
	if err := codec.CheckLevel(level); err != nil {
		return err
	}
	if level == LevelDefault {
		level = codecs[codec].standard
	}
	switch codec {
	case Gzip:
		return compressGzip(dst, src, level)
	case Snappy:
		compressSnappy(dst, src)
	case LZ4:
		return compressLZ4(dst, src, level)
	case Zstd:
		return compressZstd(dst, src, level)
	default:
		_, _ = dst.Write(src) // never fails
	}
	return nil
}

// Compress is like To, but appends to a slice, which costs another copy. It is meant for data that
// are not written to a file. If it fails, it returns dst unchanged.
func Compress(dst, src []byte, codec Codec, level int) ([]byte, error) {
	chunks := NewChunks()
	defer chunks.Release()
	if err := To(chunks, src, codec, level); err != nil {
		return dst, err
	}
	return chunks.AppendTo(dst), nil
}

// Decompress appends src, decompressed, to dst. It returns ErrTooLarge if src decompresses to more
// than limit bytes, and ErrCorrupt if the data are invalid. If it fails, it returns dst unchanged.
func Decompress(dst, src []byte, codec Codec, limit int) ([]byte, error) {
	var out []byte
	var err error
	switch codec {
	case None:
		out, err = copyLimited(dst, src, limit)
	case Gzip:
		out, err = decompressGzip(dst, src, limit)
	case Snappy:
		out, err = decompressSnappy(dst, src, limit)
	case LZ4:
		out, err = decompressLZ4(dst, src, limit)
	case Zstd:
		out, err = decompressZstd(dst, src, limit)
	default:
		err = fmt.Errorf("%w: %s", ErrCorrupt, codec)
	}
	if err != nil {
		return dst, err // returned unchanged, because out is incomplete
	}
	return out, nil
}

// copyLimited implements Decompress for uncompressed data, to which the limit applies too.
func copyLimited(dst, src []byte, limit int) ([]byte, error) {
	if len(src) > limit {
		return nil, ErrTooLarge
	}
	return append(dst, src...), nil
}

// readLimited appends data from r to dst until EOF. It enlarges dst as data arrive, and never by a
// size that the data declare. At the limit it reads one more byte, to distinguish data of exactly
// limit bytes from longer data.
func readLimited(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		left := limit - (len(dst) - start)
		if left <= 0 {
			return dst, expectEOF(r)
		}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(left, max(4096, len(dst)-start)))
		}
		// The capacity of dst may exceed the limit, so fill dst only up to the limit.
		n, err := r.Read(dst[len(dst):min(cap(dst), len(dst)+left)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}

// expectEOF checks the rest of r after the limit was reached. It distinguishes data that end
// exactly at the limit from data that are longer, and from data that are corrupt after the limit,
// such as a wrong checksum in gzip's trailer.
func expectEOF(r io.Reader) error {
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); err {
	case io.EOF:
		return nil
	case nil:
		return ErrTooLarge
	default:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
}
