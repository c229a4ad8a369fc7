package compress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Reader decompresses as it is read: what Decompress gives at once comes piece by piece, in bounded
// memory, and who has seen enough stops. Its errors wrap ErrCorrupt and ErrTooLarge as those of
// Decompress do; the source's own, which say nothing of the data, come as they are.
//
// Unlike Decompress it finds what is wrong only when it gets there.
type Reader struct {
	source watched
	in     *bufio.Reader // over source; pooled
	codec  Codec
	held   int
	// out gives the decompressed bytes; nil until the first Read, for to open it may read and fail.
	out  io.Reader
	give func() // gives back what out was made of; nil if nothing
}

// readerBytes is how much is read of a source at once: most batches whole.
const readerBytes = 64 << 10

var readerInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerBytes) }}

// NewReader returns a reader of what source decompresses to. It holds at most held bytes of data at
// once besides a buffer and the codec's own window (32 KiB of gzip, up to zstdStreamWindowMax of
// zstd); where more would be needed Read fails with ErrTooLarge: of snappy a larger block, of zstd
// more data behind a larger window. Close is due once.
func NewReader(source io.Reader, codec Codec, held int) *Reader {
	r := &Reader{source: watched{from: source}, codec: codec, held: held}
	r.in = readerInputs.Get().(*bufio.Reader)
	r.in.Reset(&r.source)
	return r
}

// Close gives the memory back; the reader must not be used any more. It leaves the source alone.
func (r *Reader) Close() {
	if r.give != nil {
		r.give()
	}
	// the pool must not keep the source alive, which may be a file that is to be closed
	r.in.Reset(nil)
	readerInputs.Put(r.in)
	*r = Reader{} // a use after this is a nil pointer, rather than somebody else's bytes
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.out == nil {
		err := r.open()
		if errors.Is(err, io.EOF) {
			// no codec makes nothing of nothing: what begins a stream is missing
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, r.explain(err)
		}
	}
	n, err := r.out.Read(p)
	return n, r.explain(err)
}

// open makes out.
func (r *Reader) open() (err error) {
	switch r.codec {
	case None:
		r.out = r.in
	case Gzip:
		r.out, r.give, err = openGzip(r.in)
	case Snappy:
		r.out = &blocks{next: (&snappyStream{in: r.in, held: r.held}).next}
	case LZ4:
		r.out = &blocks{next: (&lz4Stream{in: r.in}).next}
	case Zstd:
		r.out, r.give, err = openZstd(r.in, r.held)
	default:
		err = fmt.Errorf("%w: %s", ErrCorrupt, r.codec)
	}
	return err
}

// explain tells a source that failed from data that are no good. A source that ended early is the
// latter.
func (r *Reader) explain(err error) error {
	switch {
	case err == nil,
		err == io.EOF: //nolint:errorlint // the plain one alone is the end: wrapped it is why data are corrupt
		return err
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrCorrupt):
		return err
	// of a frame behind the first
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// watched remembers why a source failed: decoders wrap that, or call it an unexpected end.
type watched struct {
	from io.Reader
	err  error // not io.EOF
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	// The end is no failure: of data that are cut off it is the data's.
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// openGzip returns a reader of all members, and how to give it back: without its input, which is
// somebody else's from then on.
func openGzip(in *bufio.Reader) (io.Reader, func(), error) {
	r, pooled := gzipReaders.Get().(*gzipReader)
	if !pooled {
		r = new(gzipReader)
	}
	give := func() { r.give() }
	if err := r.Reset(in); err != nil {
		give()
		return nil, nil, err
	}
	return r, give, nil
}

// zstdStreamWindowMax is the largest window that is taken on a frame's word, because the library
// allocates it whole: it is what every decoder has to have (RFC 8878, 3.1.1.1.2) and the largest we
// write.
const zstdStreamWindowMax = 8 << 20

var zstdStreams sync.Pool // of *zstd.Decoder

// openZstd returns a reader of all frames. A first frame that asks for a larger window is decoded
// in memory, where a window costs nothing that is not there: Kafka's clients ask for 128 MiB around
// a few kilobytes when their level is 22.
func openZstd(in *bufio.Reader, held int) (io.Reader, func(), error) {
	var header zstd.Header
	begin, _ := in.Peek(zstd.HeaderMaxSize) // an error comes again with the next read
	if header.Decode(begin) == nil && header.WindowSize > zstdStreamWindowMax {
		out, err := decodeHeldZstd(in, held)
		return bytes.NewReader(out), nil, err
	}
	d, pooled := zstdStreams.Get().(*zstd.Decoder)
	if !pooled {
		var err error
		// Of concurrency 1 it works in the caller's goroutine and has none of its own: the pool may
		// drop it.
		d, err = zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdStreamWindowMax),
			zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
	}
	give := func() {
		_ = d.Reset(nil) // lets go of the source; it never fails
		zstdStreams.Put(d)
	}
	if err := d.Reset(in); err != nil {
		give()
		return nil, nil, err
	}
	return d, give, nil
}

// decodeHeldZstd decodes all of a source in memory, if neither it nor what it decodes to exceeds
// held bytes.
func decodeHeldZstd(in io.Reader, held int) ([]byte, error) {
	// What does not fit packed would not fit unpacked.
	src, err := readLimited(nil, in, held)
	if err != nil {
		return nil, err
	}
	return decompressZstd(nil, src, held)
}
