package compress

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
)

var (
	gzipWriters [10]sync.Pool // by level, 1 to 9: Reset cannot change a writer's level
	gzipReaders sync.Pool     // of *gzipReader
)

// compressGzip writes one member. Whatever a failed call left in a writer or reader is gone with
// the next Reset, so both go back to the pool on every path.
func compressGzip(dst *Chunks, src []byte, level int) error {
	w, pooled := gzipWriters[level].Get().(*gzip.Writer)
	if pooled {
		w.Reset(dst)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(dst, level); err != nil {
			return fmt.Errorf("compress with gzip: %w", err)
		}
	}
	defer gzipWriters[level].Put(w)
	// Nothing that is written to can fail; the errors are the library's own.
	if _, err := w.Write(src); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	return nil
}

// gzipReader is a pooled reader with the source it reads from memory by.
type gzipReader struct {
	gzip.Reader
	memory bytes.Reader
}

// give puts the reader back into the pool, and takes its source from it first: that is a view of a
// request or of a buffer, which is somebody else's from now on, and a pool must not hold on to it.
func (r *gzipReader) give() {
	r.memory.Reset(nil)
	_ = r.Reset(&r.memory) // fails for want of a header, and that is all it does
	gzipReaders.Put(r)
}

// decompressGzip reads all members of a multi-member stream, as RFC 1952 wants it.
func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	r, pooled := gzipReaders.Get().(*gzipReader)
	if !pooled {
		r = new(gzipReader)
	}
	defer r.give()
	r.memory.Reset(src) // reads byte by byte, so the library puts no buffer of its own in between
	if err := r.Reset(&r.memory); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return readLimited(dst, r, limit)
}
