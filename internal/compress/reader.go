package compress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Reader decompresses a batch piece by piece in bounded memory. A caller can stop reading early. A
// Reader returns the same bytes as Decompress, and like Decompress it wraps ErrCorrupt and
// ErrTooLarge in its errors. It returns errors of the source, such as a disk error, unchanged.
//
// Unlike Decompress, a Reader detects invalid data only when it reaches them.
type Reader struct {
	source    sourceReader
	in        *bufio.Reader // pooled reader of source
	codec     Codec
	memoryMax int
	// out returns the decompressed bytes. It is nil until the first Read, because creating it reads
	// from the source and can fail.
	out     io.Reader
	release func() // returns out's decoder to its pool; may be nil
	// openLarge opens the rest of a zstd source, starting with the first frame whose window exceeds
	// zstdStreamWindowMax.
	openLarge func(in io.Reader, memoryMax int) (io.Reader, error)
}

// readerBytes is the number of bytes read from a source at once. Most batches are smaller.
const readerBytes = 64 << 10

var readerInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerBytes) }}

// NewReader returns a reader of the decompressed contents of source. It holds at most memoryMax
// bytes of data at once, a buffer, and the codec's own window (32 KiB for gzip, up to
// zstdStreamWindowMax for zstd). Read returns ErrTooLarge in two cases: a snappy block exceeds
// memoryMax, or a zstd frame declares a window above zstdStreamWindowMax and the data from this
// frame on exceed memoryMax. The caller must call Close once.
func NewReader(source io.Reader, codec Codec, memoryMax int) *Reader {
	r := &Reader{source: sourceReader{from: source}, codec: codec, memoryMax: memoryMax,
		openLarge: openZstdInMemory}
	r.in = readerInputs.Get().(*bufio.Reader)
	r.in.Reset(&r.source)
	return r
}

// Close returns the reader's memory to the pools. The reader must not be used afterwards. Close
// does not close the source.
func (r *Reader) Close() {
	if r.release != nil {
		r.release()
	}
	// The pool must not refer to the source, which may be a file that will be closed.
	r.in.Reset(nil)
	readerInputs.Put(r.in)
	*r = Reader{} // so that a use after Close fails on a nil pointer, and does not read other data
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.out == nil {
		err := r.open()
		if errors.Is(err, io.EOF) {
			// Every codec writes a header even if there are no data, so an empty source is truncated.
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, r.classify(err)
		}
	}
	n, err := r.out.Read(p)
	return n, r.classify(err)
}

// open sets r.out.
func (r *Reader) open() (err error) {
	switch r.codec {
	case None:
		r.out = r.in
	case Gzip:
		r.out, r.release, err = openGzip(r.in)
	case Snappy:
		r.out = &blocks{next: (&snappyStream{in: r.in, memoryMax: r.memoryMax}).next}
	case LZ4:
		r.out = &blocks{next: (&lz4Stream{in: r.in}).next}
	case Zstd:
		r.out, r.release, err = openZstd(r.in, func(in io.Reader) (io.Reader, error) {
			return r.openLarge(in, r.memoryMax)
		})
	default:
		err = fmt.Errorf("%w: %s", ErrCorrupt, r.codec)
	}
	return err
}

// classify returns an error of the source unchanged, and wraps other errors in ErrCorrupt or
// ErrTooLarge. If the source ends too early, the data are corrupt.
func (r *Reader) classify(err error) error {
	switch {
	case err == nil,
		err == io.EOF: //nolint:errorlint // a wrapped io.EOF means corrupt data, not the end
		return err
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrCorrupt):
		return err
	// The library returns these errors if a window exceeds its maximum.
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// sourceReader remembers the error of a source, because decoders wrap such an error, or report an
// unexpected end instead.
type sourceReader struct {
	from io.Reader
	err  error // first error of the source, except io.EOF
}

func (w *sourceReader) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	// io.EOF does not mean that the source has failed. If the data are truncated, the decoder reports
	// it.
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// openGzip returns a reader of all members of a gzip stream, and a function that returns its
// decoder to the pool.
func openGzip(in *bufio.Reader) (io.Reader, func(), error) {
	r, pooled := gzipReaders.Get().(*gzipReader)
	if !pooled {
		r = new(gzipReader)
	}
	release := func() { r.release() }
	if err := r.Reset(in); err != nil {
		release()
		return nil, nil, err
	}
	return r, release, nil
}
