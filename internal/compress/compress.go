package compress

import (
	"fmt"
	"io"
	"slices"
)

// Func has the signature of To. Pure code that compresses takes one, so that its shell can measure:
// it holds the clock.
type Func func(dst *Chunks, src []byte, codec Codec, level int) error

// To appends src, compressed at level (or LevelDefault), to dst. The codec writes into dst's
// chunks, or hands them what it has in its own block: no byte of its output is copied more than
// once on that way (docs/format/copies.md).
//
// It fails on an unknown codec or a level outside the codec's range, with an error that names the
// range; the codecs themselves do not fail on memory. After an error what dst holds behind its old
// length is nonsense. Equal input does not promise equal output between versions of this program,
// only an equal input again after Decompress.
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

// Compress is To into one slice, at the price of another copy: for what is not on its way to a
// file. On an error dst is returned as it was.
func Compress(dst, src []byte, codec Codec, level int) ([]byte, error) {
	chunks := NewChunks()
	defer chunks.Release()
	if err := To(chunks, src, codec, level); err != nil {
		return dst, err
	}
	return chunks.AppendTo(dst), nil
}

// Decompress appends src, decompressed, to dst. It fails with ErrTooLarge before it holds more than
// limit bytes, and with ErrCorrupt on bad data. On an error dst is returned as it was. limit is for
// what is appended, whatever dst held before.
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
		return dst, err // what out holds by now is half of something
	}
	return out, nil
}

// copyLimited is Decompress of what is not compressed; the limit holds for it too.
func copyLimited(dst, src []byte, limit int) ([]byte, error) {
	if len(src) > limit {
		return nil, ErrTooLarge
	}
	return append(dst, src...), nil
}

// readLimited appends what r gives to dst until EOF. It grows dst by what has come, never by what
// was announced, and looks one byte past the limit to tell "exactly limit" from "more".
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
		// dst may have come with more room than the limit allows: that room is not ours to fill.
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

// expectEOF tells "ended exactly at the limit" from "more", and from "broken behind the limit",
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
